// What became of memory: what waits for a yes, what changed since this person last looked, and what was deleted.

import { html, useState } from "./lib/preact.js";
import { Openers, useAct } from "./parts.js";
import { Changed, Problem, author, when } from "./text.js";
import { t } from "./texts.js";
import { titleOf } from "./words.js";

/** `above` stands first: what one has to decide. `dialogs` are by name, `onOpen(name)` opens one. */
export function Changes({ session, above, dialogs, onOpen }) {
  const { memory } = session;
  const isKnown = memory.groups || memory.problem;
  return html`<section class="changes" aria-labelledby="became">
    <header><h2 id="became">${t("changes.title")}</h2></header>
    <p class="quiet">${t("changes.about")}</p>
    ${isKnown && above.map((Part) => html`<${Part} session=${session} />`)}
    <${News} memory=${memory} />
    ${isKnown && html`<${Openers} dialogs=${dialogs} onOpen=${onOpen} />`}
  </section>`;
}

/** What changed since this person last looked, each with the way back. */
function News({ memory }) {
  const [refused, act] = useAct();
  const { changes, more } = memory;
  const none = memory.groups && html`<p class="quiet">${t("changes.none")}</p>`;
  if (!changes.length && !more) return html`<${Problem} text=${refused} />${none}`;
  const entry = (change, n) => {
    const { key, path, author: by, at, deleted, diff } = change;
    const undo = act(() => memory.undo(change));
    const name = n ? t("knowledge.undo_change", { number: n + 1, path }) : undefined;
    return html`<li key=${key} class="change"><h4 dir="auto">${titleOf(memory, path)}</h4>
      <p class="quiet">${t(deleted ? "knowledge.deleted_by" : "knowledge.changed_by", { author: author(by), when: when(at) })}</p>
      <${Changed} path=${path} diff=${diff} />
      ${change.changes && html`<button aria-label=${name} onClick=${undo}>${t("knowledge.undo")}</button>`}</li>`;
  };
  return html`<section class="news" aria-label=${t("knowledge.news")}>
    <header><h3>${t(memory.isEarlier ? "knowledge.earlier" : "knowledge.new")}</h3>
      <button onClick=${act(memory.seen)}>${t("knowledge.seen")}</button></header>
    <${Problem} text=${refused} />
    <ul aria-label=${t("knowledge.changes")}>${changes.map(entry)}</ul>
    ${more > 0 && html`<p class="quiet">${t("knowledge.older_changes", { count: more })}</p>`}
  </section>`;
}
