// The real server on a free port, with a separate data directory. It can be killed and restarted on the same port.
import { spawn, execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from './client.mjs';

const PROGRAM = process.env.LOCKKEEPER_SERVER ?? 'target/debug/lockkeeper';
// Where tests/run collects the logs of all tests and the texts that must not be in them; otherwise they are removed
// with the server.
const LOGS = process.env.LOCKKEEPER_TEST_LOGS;
// A start takes less than a second; a loaded machine may need a few.
const START_MS = 60_000;
/** For members whose password does not matter. */
export const PASSWORD = 'correct-horse-battery-7';

export class Server {
  /** Everything that the server printed, line by line. */
  printed = [];
  #clients = new Map();

  /** `organization`: the text of an organization file instead of the sample; `bootstrap: false`: the first start makes the credentials. */
  static async start({ organization, bootstrap = true, settings = {}, port = 0 } = {}) {
    const server = new Server();
    server.home = mkdtempSync(join(tmpdir(), 'lockkeeper-browser-'));
    server.settings = {
      LOCKKEEPER_RATE_LIMIT: 'off',
      LOCKKEEPER_STORAGE_MIN_FREE_MB: '0',
      LOCKKEEPER_OUTBOUND_ALLOW: '127.0.0.1',
      ...settings,
    };
    if (organization) {
      const file = join(server.home, 'organization.toml');
      writeFileSync(file, organization);
      server.settings.LOCKKEEPER_ORGANIZATIONS = file;
    }
    if (bootstrap) {
      server.token = execFileSync(PROGRAM, ['token'], { encoding: 'utf8' }).trim();
      server.settings.LOCKKEEPER_BOOTSTRAP_TOKEN = server.token;
    }
    await server.#spawn(`127.0.0.1:${port}`);
    server.token ??= server.line(/^\s*Admin token: *(lk_\w+)/)[1];
    remember(server.token, PASSWORD);
    return server;
  }

  async #spawn(listen) {
    if (LOGS) mkdirSync(LOGS, { recursive: true });
    const log = openSync(join(LOGS ?? this.home, `browser-${process.pid}.log`), 'a');
    this.process = spawn(PROGRAM, ['serve', '--listen', listen, '--data-dir', join(this.home, 'data')], {
      env: { ...plainEnvironment(), ...this.settings },
      stdio: ['ignore', 'pipe', log],
    });
    this.ended = once(this.process, 'exit');
    const lines = createInterface({ input: this.process.stdout });
    const serves = new Promise((resolve, reject) => {
      lines.on('line', (line) => {
        this.printed.push(line);
        const address = line.match(/ serves on (\S+)/);
        if (address) resolve(address[1]);
      });
      this.process.once('exit', (code) => reject(new Error(`the server ended with ${code}:\n${this.printed.join('\n')}`)));
      setTimeout(() => reject(new Error('the server did not start in time')), START_MS).unref();
    });
    this.url = await serves;
    // Output after the address belongs to the greeting, and arrives immediately.
    await this.ready();
  }

  async ready() {
    const answer = await fetch(`${this.url}/readyz`);
    if (!answer.ok) throw new Error(`/readyz: ${answer.status}`);
  }

  /** The first printed line that matches, with its groups. */
  line(pattern) {
    const found = this.printed.map((line) => line.match(pattern)).find(Boolean);
    if (!found) throw new Error(`no printed line matches ${pattern}:\n${this.printed.join('\n')}`);
    return found;
  }

  /** As a crash does: no time to say goodbye. */
  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }

  async startAgain() {
    await this.#spawn(new URL(this.url).host);
  }

  async stop() {
    await this.kill();
    rmSync(this.home, { recursive: true, force: true });
  }

  /** The API as the admin whose token the first start made. */
  get admin() {
    return this.#client('admin', () => new Client(this.url, this.token));
  }

  /** The API as another member of the organization, with a token made for that. */
  async as(name) {
    if (name === 'admin') return this.admin;
    const known = this.#clients.get(name);
    if (known) return known;
    const { token } = await this.admin.post('/tokens', { user: name, name: 'for the tests' });
    remember(token);
    return this.#client(name, () => new Client(this.url, token));
  }

  #client(name, make) {
    if (!this.#clients.has(name)) this.#clients.set(name, make());
    return this.#clients.get(name);
  }

  /** A link that lets this member choose a password, once. */
  async invitation(name) {
    const member = (await this.admin.get('/members?limit=100')).find((one) => one.name === name);
    const { url } = await this.admin.post(`/members/${member.userId}/invitation`);
    remember(new URL(url).hash.slice(1));
    return url;
  }

  /** Gives a member the password `PASSWORD`, as somebody would who follows an invitation. */
  async givePassword(name) {
    const invitation = new URL(await this.invitation(name)).hash.slice(1);
    const answer = await fetch(`${this.url}/auth/invitations/${invitation}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ password: PASSWORD }),
    });
    if (answer.status !== 204) throw new Error(`an invitation for ${name}: ${answer.status} ${await answer.text()}`);
  }
}

/** Notes what must not be in any log; the end of the whole run searches for it. */
export function remember(...secrets) {
  if (!LOGS) return;
  mkdirSync(LOGS, { recursive: true });
  appendFileSync(join(LOGS, `browser-${process.pid}.secrets`), secrets.map((secret) => `${secret}\n`).join(''));
}

/** Settings of whoever runs the tests do not change the server under test. */
function plainEnvironment() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('LOCKKEEPER_')));
}
