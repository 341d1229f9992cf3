// One element of a page in the accessibility tree, with a role and a name.

export class Element {
  constructor(tab, node, objectId) {
    this.tab = tab;
    this.role = node.role?.value;
    this.name = node.name?.value ?? '';
    this.objectId = objectId;
  }

  /** Runs a function in the page, with the element as `this`. */
  async run(body, ...values) {
    const { result, exceptionDetails } = await this.tab.devtools.send('Runtime.callFunctionOn', {
      objectId: this.objectId,
      functionDeclaration: body.toString(),
      arguments: values.map((value) => ({ value })),
      returnByValue: true,
      awaitPromise: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  text = () => this.run(function () { return this.innerText ?? this.textContent; });
  value = () => this.run(function () { return this.value ?? this.textContent; });
  attribute = (name) => this.run(function (of) { return this.getAttribute(of); }, name);

  /** The middle of the element once it is in view, stays where it is, and nothing lies over it; else undefined. */
  spot = () => this.run(async function () {
    if (!this.isConnected) return undefined;
    this.scrollIntoView({ block: 'nearest', behavior: 'instant' });
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const before = this.getBoundingClientRect();
    await frame();
    await frame();
    const { left, top, width, height } = this.getBoundingClientRect();
    if (width === 0 || height === 0 || left !== before.left || top !== before.top) return undefined;
    const [x, y] = [left + width / 2, top + height / 2];
    const hit = document.elementFromPoint(x, y);
    return hit && (this.contains(hit) || hit.contains(this) || this.labels?.[0]?.contains(hit)) ? { x, y } : undefined;
  });

  async click() {
    const { x, y } = await this.tab.until(`${this.role} "${this.name}" can be clicked`, this.spot);
    await this.tab.page.mouse.click(x, y);
    this.tab.clicks += 1;
  }

  /** Replaces the text of a field, key by key, as a person types. */
  async fill(text) {
    await this.run(function () { this.focus(); this.select?.(); });
    await this.tab.page.keyboard.type(text);
  }

  /** Chooses an option of a list by its text. */
  choose = (text) => this.run(function (wanted) {
    const option = [...this.options].find((one) => one.text.trim() === wanted || one.value === wanted);
    if (!option) throw new Error(`no option ${wanted} in: ${[...this.options].map((one) => one.text).join(', ')}`);
    this.value = option.value;
    this.dispatchEvent(new Event('input', { bubbles: true }));
    this.dispatchEvent(new Event('change', { bubbles: true }));
  }, text);

  focus = () => this.run(function () { this.focus(); });
}
