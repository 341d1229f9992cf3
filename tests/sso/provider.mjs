// A real OpenID provider for tests: `oidc-provider` from npm, with a page to sign in and users from the command line.
//
//   tests/sso/install && node tests/sso/provider.mjs --redirect http://127.0.0.1:8080/auth/oidc/test/callback \
//     --user ana:developers,ops --user vic:viewers [--port 0] [--client lockkeeper] [--secret s3cret] [--claims-in-id-token]
//
// Prints one line of JSON with its `issuer` once it listens, and ends when its standard input does. Everybody's
// password is their name. `POST /control` changes it while it runs: `{"redirects": ["http://…"]}` replaces the
// permitted redirects, `{"users": {"ana": ["ops"]}}` the groups of users, `{"fault": "audience"}` breaks the tokens
// from now on, `{"rotate": true}` signs with a new key. `GET /control` counts the requests by path.
import { createRequire } from 'node:module';
import { createHmac, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const installed = createRequire(new URL('../../target/test-tools/sso/', import.meta.url));
const { Provider } = await import(pathToFileURL(installed.resolve('oidc-provider')));

const { values: options } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    client: { type: 'string', default: 'lockkeeper' },
    secret: { type: 'string', default: 's3cret' },
    redirect: { type: 'string', multiple: true, default: [] },
    user: { type: 'string', multiple: true, default: [] },
    'claims-in-id-token': { type: 'boolean', default: false },
  },
});
const users = new Map(options.user.map((user) => {
  const [name, groups = ''] = user.split(':');
  return [name, groups.split(',').filter(Boolean)];
}));

const newKey = () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const id = randomUUID();
  return { id, privateKey, jwk: { ...privateKey.export({ format: 'jwk' }), kid: id, use: 'sig', alg: 'RS256' } };
};
const [first, second, unpublished] = [newKey(), newKey(), newKey()];
let redirects = options.redirect;
let signing = first;
let fault = null;
const counts = {};

const server = createServer();
await new Promise((listening) => server.listen(Number(options.port), '127.0.0.1', listening));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [{
    client_id: options.client,
    client_secret: options.secret,
    // Any value: the permitted ones can change.
    redirect_uris: ['http://127.0.0.1/callback'],
    grant_types: ['authorization_code'],
    response_types: ['code'],
  }],
  jwks: { keys: [first.jwk] },
  cookies: { keys: [randomUUID()] },
  claims: {
    openid: ['sub'],
    profile: ['name', 'preferred_username'],
    email: ['email', 'email_verified'],
    groups: ['groups'],
  },
  conformIdTokenClaims: !options['claims-in-id-token'],
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 3600, IdToken: 600, Interaction: 600, Session: 3600 },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => {
      const name = id.replace(/^id-of-/, '');
      return {
        sub: id, name, preferred_username: name, email: `${name}@acme.example`, email_verified: true,
        groups: users.get(name) ?? [],
      };
    },
  }),
  // Users are not asked for consent to the claims.
  loadExistingGrant: async (ctx) => {
    const { client, session } = ctx.oidc;
    const grant = new ctx.oidc.provider.Grant({ clientId: client.clientId, accountId: session.accountId });
    grant.addOIDCScope('openid profile email groups');
    await grant.save();
    return grant;
  },
});

provider.Client.prototype.redirectUriAllowed = (uri) => redirects.includes(uri);

const encoded = (part) => Buffer.from(JSON.stringify(part)).toString('base64url');

// The same token with other claims, signed like a real one.
const signedAgain = (token, change, { key = signing, alg = 'RS256' } = {}) => {
  const claims = { ...JSON.parse(Buffer.from(token.split('.')[1], 'base64url')), ...change };
  const input = `${encoded({ alg, kid: key.id, typ: 'JWT' })}.${encoded(claims)}`;
  if (alg === 'none') return `${input}.`;
  const signature = alg === 'HS256'
    ? createHmac('sha256', options.secret).update(input).digest()
    : sign('sha256', Buffer.from(input), key.privateKey);
  return `${input}.${signature.toString('base64url')}`;
};

const faults = {
  audience: (token) => signedAgain(token, { aud: 'somebody-else' }),
  audiences: (token) => signedAgain(token, { aud: [options.client, 'somebody-else'] }),
  party: (token) => signedAgain(token, { azp: 'somebody-else' }),
  issuer: (token) => signedAgain(token, { iss: 'http://127.0.0.1:1' }),
  nonce: (token) => signedAgain(token, { nonce: 'of-another-sign-in' }),
  expired: (token) => signedAgain(token, { exp: 1_000_000_000 }),
  hash: (token) => signedAgain(token, { at_hash: 'AAAAAAAAAAAAAAAAAAAAAA' }),
  unsigned: (token) => signedAgain(token, {}, { alg: 'none' }),
  symmetric: (token) => signedAgain(token, {}, { alg: 'HS256' }),
  key: (token) => signedAgain(token, {}, { key: unpublished }),
  signature: (token) => signedAgain(token, {}, { key: { ...unpublished, id: signing.id } }),
  missing: () => undefined,
};

provider.use(async (ctx, next) => {
  await next();
  if (ctx.path === '/token' && ctx.body?.id_token) {
    const changed = signing === first ? ctx.body.id_token : signedAgain(ctx.body.id_token, {});
    ctx.body = { ...ctx.body, id_token: fault ? faults[fault](changed) : changed };
  }
  if (ctx.path === '/jwks' && ctx.status === 200) {
    const { kid, kty, n, e, use, alg } = signing.jwk;
    ctx.body = { keys: [{ kid, kty, n, e, use, alg }] };
  }
});

const readBody = async (request) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString();
};

const page = (response, status, message) => {
  response.writeHead(status, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' });
  response.end(`<!doctype html><html lang="en"><title>Test provider</title><h1>Test provider</h1>${message}
    <form method="post"><label>Name <input name="name" autofocus></label>
    <label>Password <input name="password" type="password"></label><button>Sign in</button></form></html>`);
};

const interaction = async (request, response) => {
  // Refuses a browser that did not begin the sign-in.
  await provider.interactionDetails(request, response);
  if (request.method !== 'POST') return page(response, 200, '');
  const form = new URLSearchParams(await readBody(request));
  const name = form.get('name');
  if (!users.has(name) || form.get('password') !== name) return page(response, 403, '<p role="alert">Wrong.</p>');
  const result = { login: { accountId: `id-of-${name}` } };
  return provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
};

const control = async (request, response) => {
  if (request.method === 'POST') {
    const change = JSON.parse(await readBody(request));
    for (const [name, groups] of Object.entries(change.users ?? {})) users.set(name, groups);
    redirects = change.redirects ?? redirects;
    if ('fault' in change) fault = change.fault;
    if (change.rotate) signing = second;
  }
  response.writeHead(200, { 'content-type': 'application/json' });
  response.end(JSON.stringify(counts));
};

const oidc = provider.callback();
server.on('request', (request, response) => {
  const { pathname } = new URL(request.url, issuer);
  const known = pathname.startsWith('/interaction/') ? '/interaction' : pathname;
  counts[known] = (counts[known] ?? 0) + 1;
  const handled = pathname === '/control' ? control(request, response)
    : pathname.startsWith('/interaction/') ? interaction(request, response) : oidc(request, response);
  Promise.resolve(handled).catch((error) => {
    if (!response.headersSent) response.writeHead(400, { 'content-type': 'text/plain' });
    response.end(`${error.name}`);
  });
});

console.log(JSON.stringify({ issuer }));
process.stdin.on('end', () => process.exit(0)).resume();
