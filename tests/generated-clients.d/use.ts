// Typical requests of a CI job and its users, with the types that openapi-typescript generates from the OpenAPI
// document and with openapi-fetch as the client.
//
// LOCKKEEPER_URL and LOCKKEEPER_TOKEN (of an admin) name the server, which serves the sample organization.

import { strict as assert } from "node:assert";
import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./lockkeeper.js";

type Problem = components["schemas"]["Problem"];
type Deployment = components["schemas"]["Deployment"];
type Api = Client<paths>;

const organization = "/api/v1/organizations/{orgId}";
const environment = `${organization}/pipelines/{pipelineId}/ephemeral-environments/{envName}` as const;
const session = `${environment}/sessions/{sessionId}` as const;

const orgId = "acme";
const web = { orgId, pipelineId: "web", envName: "review-1" };

function clientOf(token: string): Api {
  return createClient<paths>({
    baseUrl: process.env.LOCKKEEPER_URL ?? "",
    headers: { Authorization: `Bearer ${token}` },
  });
}

/** The record, unless it is a problem, whose detail says what to do. */
function good<T>(answer: { data?: { data: T } | undefined; error?: Problem | undefined }): T {
  if (!answer.data) throw new Error(`${answer.error?.code}: ${answer.error?.detail}`);
  return answer.data.data;
}

async function member(admin: Api, user: string): Promise<Api> {
  const made = good(await admin.POST(`${organization}/tokens`, {
    params: { path: { orgId } },
    body: { name: "generated client", user },
  }));
  assert(made.token !== null);
  return clientOf(made.token);
}

/** Claim, be refused, wait, queue, keep alive, take by force. */
async function claiming(ana: Api, mia: Api) {
  const claim = (client: Api, body: components["schemas"]["ClaimRequest"]) =>
    client.POST(`${environment}/sessions`, {
      params: { path: web },
      body,
    });
  const release = (client: Api, sessionId: string) =>
    client.DELETE(
      session,
      { params: { path: { ...web, sessionId } } },
    );
  const status = (client: Api, sessionId: string, wait?: { tag: string; seconds: number }) =>
    client.GET(
      session,
      {
        params: {
          path: { ...web, sessionId },
          header: wait && { "If-None-Match": wait.tag },
          query: wait && { waitSeconds: wait.seconds },
        },
      },
    );
  const queue = (client: Api) =>
    client.GET(`${environment}/queue`, {
      params: { path: web },
    });

  const first = good(await claim(ana, { commitId: "c0ffee1", ttlSeconds: 300 }));
  assert(first.lockStatus === "active" && first.fencingToken !== null);

  const refused = await claim(mia, {});
  assert.equal(refused.error?.code, "environment_locked");
  console.log(`typescript: ${refused.error?.detail}`);
  assert.equal(refused.error?.holder?.user.name, "ana");

  const waiting = claim(mia, { ttlSeconds: 300, waitSeconds: 30, context: "typescript waits" });
  while (good(await queue(ana)).length === 0);
  const ended = good(await release(ana, first.sessionId));
  assert(ended.lockStatus === "released" && ended.endedBy?.name === "ana");
  const second = good(await waiting);
  assert.equal(second.fencingToken, first.fencingToken + 1);

  const queued = good(await claim(ana, { queue: true, ttlSeconds: 300 }));
  assert(queued.lockStatus === "queued" && queued.queuePosition === 1);
  const seen = await status(ana, queued.sessionId);
  good(await release(mia, second.sessionId));
  const tag = seen.response.headers.get("ETag") ?? "";
  const third = good(await status(ana, queued.sessionId, { tag, seconds: 30 }));
  assert(third.lockStatus === "active" && third.fencingToken !== null);

  const kept = good(await ana.POST(
    `${session}/heartbeat`,
    { params: { path: { ...web, sessionId: third.sessionId } }, body: { fencingToken: third.fencingToken } },
  ));
  assert((kept.expiresAt ?? "") >= (third.expiresAt ?? ""));

  const forced = good(await mia.POST(
    `${environment}/force-claim`,
    { params: { path: web }, body: { context: "typescript takes over", ttlSeconds: 300 } },
  ));
  assert.equal(forced.overrode?.user.name, "ana");
  const lost = good(await status(ana, third.sessionId));
  assert(lost.overridden && lost.endedBy?.sessionId === forced.sessionId);
  const taken = good(await ana.GET(
    environment,
    { params: { path: web } },
  ));
  assert(taken.lock?.context === "typescript takes over" && taken.configuration.labels["size"] === "small");
  good(await release(mia, forced.sessionId));
  return { overridden: third.sessionId, by: forced.sessionId };
}

/** Deploy through the stages of the pipeline `shop`, one of which somebody has to approve. */
async function deploying(ana: Api, mia: Api) {
  const shop = { orgId, pipelineId: "shop", envName: "staging-1" };
  const { sessionId } = good(await ana.POST(
    `${environment}/sessions`,
    { params: { path: shop }, body: { ttlSeconds: 600 } },
  ));
  const { deploymentId } = good(await ana.POST(
    `${session}/deploy`,
    { params: { path: { ...shop, sessionId } }, body: { commitId: "c0ffee1" } },
  ));
  await until(ana, deploymentId, "awaiting_approval");
  const pending = good(await mia.GET(`${organization}/approvals`, {
    params: { path: { orgId }, query: { status: "pending", deploymentId } },
  }));
  assert.deepEqual(pending.map((approval) => approval.stage), ["deploy"]);
  const approved = good(await mia.POST(`${organization}/approvals/{approvalId}/approve`, {
    params: { path: { orgId, approvalId: pending[0]?.approvalId ?? "" } },
    body: { comment: "looks good" },
  }));
  assert.equal(approved.decidedBy?.name, "mia");
  const deployment = await until(ana, deploymentId, "succeeded");
  assert.deepEqual(deployment.stages.map((stage) => stage.name), ["build", "test", "deploy", "smoke"]);
  assert(deployment.stages.every((stage) => stage.steps.every((step) => step.exitCode === 0)));
  const log = await ana.GET(`${organization}/deployments/{deploymentId}/logs`, {
    params: { path: { orgId, deploymentId } },
    parseAs: "text",
  });
  assert((log.data ?? "").includes("deploying c0ffee1 to staging-1"));
  good(await ana.DELETE(
    session,
    { params: { path: { ...shop, sessionId } } },
  ));
}

/** Asks again whenever it has changed. */
async function until(client: Api, deploymentId: string, status: Deployment["status"]): Promise<Deployment> {
  const ask = (tag: string) =>
    client.GET(`${organization}/deployments/{deploymentId}`, {
      params: {
        path: { orgId, deploymentId },
        ...(tag && { header: { "If-None-Match": tag }, query: { waitSeconds: 30 } }),
      },
    });
  let tag = "";
  for (let asked = 0; asked < 100; asked++) {
    const answer = await ask(tag);
    if (answer.response.status === 304) continue;
    tag = answer.response.headers.get("ETag") ?? "";
    const deployment = good(answer);
    if (deployment.status === status) return deployment;
  }
  throw new Error(`${deploymentId} is not ${status}`);
}

/** Events are typed by what happened. */
async function watching(mia: Api, overridden: string, by: string) {
  const [event] = good(await mia.GET(`${organization}/events`, {
    params: { path: { orgId }, query: { type: "session.overridden", sessionId: overridden } },
  }));
  assert(event?.type === "session.overridden");
  // The compiler knows the data fields of this type.
  assert(event.data.overriddenBy === by && event.actor.kind === "user");
}

/** A registry with a step, a pipeline that uses it, stop and resume. */
async function configuring(mia: Api) {
  const path = { orgId, pipelineId: "from-typescript" };
  const registry = good(await mia.POST(`${organization}/step-registries`, {
    params: { path: { orgId } },
    body: { name: "from-typescript", steps: [{ name: "greet", version: "1", run: ["echo", "hello"] }] },
  }));
  const { registryId } = registry;
  const [step] = good(await mia.GET(`${organization}/step-registries/{registryId}/steps`, {
    params: { path: { orgId, registryId } },
  }));
  assert.equal(step?.uses, "from-typescript/greet@1");
  const made = good(await mia.PUT(`${organization}/pipelines/{pipelineId}`, {
    params: { path },
    body: { stages: [{ name: "build", steps: [{ run: ["true"] }, { uses: "from-typescript/greet@1" }] }] },
  }));
  assert(made.selfApproval && made.stages[0]?.steps[1]?.uses === "from-typescript/greet@1");
  const stopped = good(await mia.POST(`${organization}/pipelines/{pipelineId}/stop`, {
    params: { path },
    body: { reason: "a try" },
  }));
  assert(stopped.status === "stopped" && stopped.stopReason === "a try");
  assert.equal(good(await mia.POST(`${organization}/pipelines/{pipelineId}/resume`, {
    params: { path },
  })).status, "running");
  const inUse = await mia.DELETE(`${organization}/step-registries/{registryId}`, {
    params: { path: { orgId, registryId } },
  });
  assert(inUse.error?.code === "registry_in_use" && inUse.error.usedBy?.[0] === "from-typescript");
  const gone = await mia.DELETE(`${organization}/pipelines/{pipelineId}`, { params: { path } });
  assert.equal(gone.response.status, 204);
  await mia.DELETE(`${organization}/step-registries/{registryId}`, {
    params: { path: { orgId, registryId } },
  });
}

const admin = clientOf(process.env.LOCKKEEPER_TOKEN ?? "");
const [ana, mia] = [await member(admin, "ana"), await member(admin, "mia")];
const { overridden, by } = await claiming(ana, mia);
await deploying(ana, mia);
await watching(mia, overridden, by);
await configuring(mia);
console.log("typescript: claimed, waited, queued, took over, deployed, approved, configured");
