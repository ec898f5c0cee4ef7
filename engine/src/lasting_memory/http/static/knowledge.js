// What the agent knows, beside the chat: the files, with what has just changed lit up, and what one decides about them.

import { File, NewFile } from "./file.js";
import { html, useState } from "./lib/preact.js";
import { Toggle, useAct, useTold } from "./parts.js";
import { Diff, Problem, author, plural, size, when } from "./text.js";

const SCOPES = {
  assistant: `Memory is shared here by everybody who talks to this assistant: nobody has files of their own, and nothing
    of yours is put into it between conversations.`,
  "user+assistant": "Each assistant remembers you on its own; this is what the standard one knows.",
};
const BACKGROUND = `The agent does not write while you talk. What you say becomes memory between conversations, by
  consolidation.`;
const PAUSED = "Memory is paused: nothing new is remembered, and what you say now never will be.";

/** `switches` are further controls, by name, and `below` what stands below them. */
export function Knowledge({ session, switches, below }) {
  const { memory, me } = session;
  const isOwn = !me.routes["/memories/"].shared;
  return html`<section class="knowledge" aria-labelledby="knows">
    <header><h2 id="knows">What it knows about you</h2>
      ${memory.files && html`<span class="quiet">${plural(memory.files.length, "file")}</span>`}</header>
    ${SCOPES[me.memory_scope] && html`<p class="note">${SCOPES[me.memory_scope]}</p>`}
    ${isOwn && me.memory_writes === "background" && html`<p class="note">${BACKGROUND}</p>`}
    ${isOwn && html`<${Files} session=${session} />
      <${Decisions} session=${session} switches=${switches} below=${below} />`}
  </section>`;
}

function Files({ session }) {
  const { memory } = session;
  const { changes } = memory;
  const [open, setOpen] = useState(null);
  const [refused, act] = useAct();
  const known = memory.files ?? [];
  const isKnown = (path) => known.some((file) => file.path === path);
  const gone = [...changes.values()].filter(({ deleted, path }) => deleted && !isKnown(path));
  const files = [...gone, ...known.toSorted((a, b) => changes.has(b.path) - changes.has(a.path))];
  const newest = [...changes.keys()].at(-1);
  if (open && !files.some(({ path }) => path === open)) files.unshift({ path: open, deleted: true });
  const close = () => setOpen(null);
  const entry = ({ path, deleted, error, bytes, modified_at: at, revision }) => {
    const change = changes.get(path);
    return html`<li key=${path} class=${change ? "changed" : ""}>
      ${deleted && html`<p class="path">${path}</p>`}
      ${!deleted && html`<${Toggle} class="path" of=${path} open=${open} set=${setOpen} />
        <p class="quiet">${error ?? `${size(bytes)}, ${when(at)}`}</p>`}
      ${change && html`<${Change} ...${change} isNewest=${path === newest} undo=${act(() => memory.undo(change))} />`}
      ${open === path &&
      html`<${File} session=${session} path=${path} revision=${revision} isGone=${deleted} onGone=${close} />`}
    </li>`;
  };
  return html`<${Problem} text=${refused || memory.problem} />
    ${memory.files && !files.length && html`<p class="quiet">Nothing yet. Tell it something to remember.</p>`}
    <ul class="files" aria-label="Memory">${files.map(entry)}</ul>
    <p class="row"><${NewFile} session=${session} onMade=${setOpen} />
      ${changes.size > 0 && html`<button onClick=${memory.seen}>Seen</button>`}</p>`;
}

/** The changed lines. "Undo" takes back the newest change; each older one has a button of its own name. */
const Change = ({ path, revision, author: by, at, deleted, diff, isNewest, undo }) => html`<div class="change">
  <p class="quiet">${deleted ? "Deleted by" : "Changed by"} ${author(by)}, ${when(at)}</p>
  <${Diff} text=${diff} />
  <button onClick=${undo}>${isNewest ? "Undo" : `Take back revision ${revision} of ${path.split("/").at(-1)}`}</button>
</div>`;

function Decisions({ session, switches, below }) {
  const { client, memory } = session;
  const { told: stored, tell, problem } = useTold(client, "/memory/controls", {}, memory.version);
  const [refused, act] = useAct();
  const [wanted, want] = useState({}); // a switch moves at once
  const told = stored && { ...stored, ...wanted };
  const decide = (name) => act(async () => {
    const body = { [name]: !told[name] };
    want((others) => ({ ...others, ...body }));
    const done = () => want(({ [name]: _, ...others }) => others);
    await memory.change("PUT", "/memory/controls", { body }).then(tell).finally(done);
  });
  const option = ([name, label]) => html`<label class="switch">
    <input type="checkbox" role="switch" checked=${told[name]} onChange=${decide(name)} />${label}</label>`;
  const { nearly_full: isFull, bytes, max_bytes: maxBytes, files, max_files: maxFiles } = memory.usage ?? {};
  return html`<div class="decisions">
    ${isFull && html`<p class="note">Memory is nearly full: ${size(bytes)} of ${size(maxBytes)},
      ${` ${plural(files, "file")}`} of ${maxFiles}. Delete what is no longer needed.</p>`}
    ${told?.paused && html`<p class="note">${PAUSED}</p>`}
    ${told && html`<p class="row">${Object.entries({ paused: "Pause memory", ...switches }).map(option)}</p>`}
    <${Problem} text=${refused || problem} />
    ${below.map((Part) => html`<${Part} session=${session} />`)}
  </div>`;
}
