// Why a deployment failed: the cause with its evidence, the suggested fix as a diff, and its pull request.

import { asking, at, coded, get, h, may, mono, notice, pageHead, path, post, refetch, replace, state, timeElement } from '../parts/all.js';

export async function show({ params, signal, main, title }) {
  const address = path('analyses', params.analysisId);
  const place = h('div');
  const read = async () => {
    const { data } = await get(address, { signal });
    replace(place, analysisCard(data, { reload: read }));
    return data;
  };
  const { envName, deploymentId, requestedBy, createdAt } = await read();
  title(`Why ${envName} failed`);
  replace(main, h('section', { class: 'page' }, pageHead({
    title: `Why ${envName} failed`,
    text: ['Analysis of ', h('a', { href: at('-', 'deployments', deploymentId) }, 'a deployment'), ', requested by ', requestedBy.name, ' ', timeElement(createdAt)],
  }), place));
  return refetch({ deploymentId }, () => read().catch(() => {}));
}

export function analysisCard(analysis, { reload, actions } = {}) {
  const { status, rootCause, error, confidence, engine, comparedWith, alternatives, suggestedFix: fix } = analysis;
  return h('article', { class: 'card', 'aria-label': 'Analysis' },
    h('header', null, h('h2', null, h('a', { class: 'strong', href: at('-', 'analyses', analysis.analysisId) }, 'Why it failed')), actions),
    status === 'running' ? state('running', 'reading the log…') : null,
    status === 'failed' ? notice('bad', coded(error)) : null,
    rootCause ? [
      h('p', { class: 'sentence' }, coded(rootCause.summary)),
      h('p', { class: 'quiet small' }, `${rootCause.category.replaceAll('_', ' ')} · ${Math.round(confidence * 100)} % sure · found by ${engine === 'llm' ? 'a model' : 'the builtin engine'}`,
        comparedWith ? [' · compared with ', mono(comparedWith.commitId), ', the last success'] : null),
      rootCause.evidence.length > 0 ? [h('h3', null, 'Evidence'), h('ol', { class: 'evidence' }, rootCause.evidence.map(({ stage, step, line, text }) =>
        h('li', null, h('span', { class: 'small quiet' }, `${stage} / ${step}, line ${line}`), h('code', null, text))))] : null,
      alternatives.length > 0 ? [h('h3', null, 'Other possible causes'), h('ul', null, alternatives.map((other) =>
        h('li', null, coded(other.summary), ' ', h('span', { class: 'small quiet' }, `${other.category.replaceAll('_', ' ')} · ${Math.round(other.confidence * 100)} %`))))] : null,
    ] : null,
    fix ? [h('h3', null, 'Suggested fix'), h('p', null, coded(fix.summary)), fix.patch ? diff(fix.patch) : null, proposal(analysis, reload)] : null);
}

function diff(patch) {
  const kind = (line) => (/^(\+\+\+|---) |^@@/.test(line) ? 'hunk' : { '+': 'added', '-': 'removed' }[line[0]]);
  return h('pre', { class: 'code', tabindex: 0, 'aria-label': 'The fix as a diff' }, patch.trimEnd().split('\n').map((line) => h('span', { class: kind(line) }, `${line}\n`)));
}

// For a pipeline without a repository, the server's refusal says what to set.
function proposal({ analysisId, pullRequest, suggestedFix: { summary, patch } }, reload) {
  if (pullRequest) {
    const { url, branch, number, createdAt } = pullRequest;
    return notice('good', h('span', null, number ? `Pull request ${number}: ` : 'Branch ',
      /^https?:\/\//.test(url) ? h('a', { href: url, target: '_blank', rel: 'noopener noreferrer' }, branch) : mono(`${branch} in ${url}`), ' ', timeElement(createdAt)));
  }
  return may('analyse') ? h('div', null, asking({ label: 'Propose the fix…', icon: 'rocket' }, () => ({
    title: 'Propose the fix', label: 'Propose',
    text: `Pushes ${patch ? 'the patch' : 'the analysis as a document'} on a new branch, and opens a pull request where the repository has them. Never on the default branch.`,
    fields: [
      { label: 'Title', name: 'title', placeholder: summary.slice(0, 60) },
      { label: 'Branch', name: 'branch', placeholder: `lockkeeper/fix-${analysisId}` },
      { label: 'As a draft', name: 'draft', type: 'checkbox' },
    ],
    send: (values) => post(path('analyses', analysisId, 'fix-pull-request'), values),
    done: (answer) => (answer.status === 202 ? 'The fix is being pushed' : 'The fix is proposed'),
  }), reload)) : null;
}
