// Faults that must never occur in a page, in any test: an exception, an error in the console, a violation of the
// content security policy, a failing asset, a server error, a request to another host.

// The browser itself logs these for answers like 401 and 409, which are expected; answers are checked below.
const FAILED_ANSWER = /^Failed to load resource: the server responded with a status of 4\d\d/;
const NO_SERVER = /net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|SOCKET_NOT_CONNECTED|NETWORK_IO_SUSPENDED)/;

const FAULTS = 'faults in the page:';

export class Faults {
  #found = [];
  /** True while a test has killed the server: failing connections are then expected. */
  serverIsDown = false;
  /** Other origins that a test goes to on purpose, such as an OpenID provider. */
  otherOrigins = new Set();

  async watch(page, origin) {
    this.otherOrigins.add(origin);
    await page.evaluateOnNewDocument(() => {
      addEventListener('securitypolicyviolation', (violation) => {
        console.error(`content security policy: ${violation.violatedDirective} ${violation.blockedURI} ${violation.sourceFile}:${violation.lineNumber}`);
      });
    });
    page.on('pageerror', (error) => this.#note(`exception: ${error.stack ?? error}`));
    page.on('console', (message) => {
      if (!['error', 'warn', 'assert'].includes(message.type())) return;
      const text = message.text();
      if (FAILED_ANSWER.test(text) || (this.serverIsDown && NO_SERVER.test(text))) return;
      this.#noteMessage(text, message);
    });
    page.on('response', (response) => {
      const url = new URL(response.url());
      if (response.status() >= 500 && !this.serverIsDown) this.#note(`${response.status()} for ${url.pathname}`);
      if (response.status() >= 400 && url.pathname.startsWith('/assets/')) this.#note(`${response.status()} for ${url.pathname}`);
    });
    page.on('request', (request) => {
      const url = new URL(request.url());
      if (url.protocol.startsWith('http') && !this.otherOrigins.has(url.origin)) this.#note(`a request to ${url.origin}`);
    });
  }

  /** The text of a logged error is only its kind; its words and its place come with the object. */
  #noteMessage(text, message) {
    const at = this.#found.push(`console: ${text} (${message.location().url ?? ''})`) - 1;
    for (const argument of message.args()) {
      argument.evaluate((value) => value?.stack).then((stack) => {
        if (stack) this.#found[at] = `console: ${stack}`;
      }, () => undefined);
    }
  }

  #note(fault) {
    this.#found.push(fault);
  }

  /** Adds them to what a test complains about: often they are the reason why something was waited for in vain. */
  explain(error) {
    if (!error.message.startsWith(FAULTS)) error.message += this.list();
  }

  list = () => this.#found.map((fault) => `\n  ${fault}`).join('');

  /** Throws if there was any. */
  check() {
    if (this.#found.length > 0) throw new Error(FAULTS + this.list());
  }
}
