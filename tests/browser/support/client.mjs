// A program's view of the API: with a token, from outside the browser.
export class Client {
  constructor(url, token, organization = 'acme') {
    this.url = url;
    this.token = token;
    this.base = `${url}/api/v1/organizations/${organization}`;
  }

  get = (path) => this.#call('GET', path);
  post = (path, body = {}) => this.#call('POST', path, body);
  put = (path, body = {}) => this.#call('PUT', path, body);
  patch = (path, body = {}) => this.#call('PATCH', path, body);
  del = (path) => this.#call('DELETE', path);

  claim = (environment, body = {}) => this.post(`${inPipeline(environment)}/sessions`, body);
  forceClaim = (environment, body = {}) => this.post(`${inPipeline(environment)}/force-claim`, body);
  release = (environment) => this.del(`${inPipeline(environment)}/lock`);
  environment = (environment) => this.get(inPipeline(environment));

  /** Ends every session that holds or waits. */
  async releaseAll() {
    for (const { pipelineId, envName, sessionId } of await this.get('/sessions?limit=100')) {
      await this.del(`${inPipeline(`${pipelineId}/${envName}`)}/sessions/${sessionId}`);
    }
  }

  /** The next state of a deployment for which `holds` is true. */
  async deploymentWhen(deploymentId, holds) {
    for (;;) {
      const deployment = await this.get(`/deployments/${deploymentId}`);
      if (holds(deployment)) return deployment;
      await this.get(`/deployments/${deploymentId}?waitSeconds=10`);
    }
  }

  async #call(method, path, body) {
    const answer = await fetch(this.base + path, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, ...(body && { 'Content-Type': 'application/json' }) },
      body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text).data : undefined;
  }
}

/** `web/review-1` → the path of that environment. */
export function inPipeline(environment) {
  const [pipeline, name] = environment.split('/');
  return `/pipelines/${pipeline}/ephemeral-environments/${name}`;
}
