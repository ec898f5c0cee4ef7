// What the page's parts have in common: asking the server, doing something on request, forms and dialogs.

import { connection, isUnreachable, reason } from "./client.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib/preact.js";
import { Problem } from "./text.js";
import { t } from "./texts.js";

export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** What `ask(signal)` told, asked again whenever one of `inputs` changes: { told, tell, problem, again }. */
export function useAsked(ask, inputs) {
  const [told, setTold] = useState(null);
  const [problem, setProblem] = useState("");
  const [times, setTimes] = useState(0);
  const asked = useRef();
  useEffect(() => {
    const left = (asked.current = new AbortController());
    const unlessLeft = (act) => (value) => left.signal.aborted || act(value);
    const take = (value) => (setTold(value), setProblem(""));
    ask(left.signal).then(unlessLeft(take), unlessLeft((error) => setProblem(reason(error))));
    return () => left.abort();
  }, [...inputs, times]);
  // What the server did not answer is asked again once it is there.
  useEffect(() => {
    if (!isUnreachable(problem)) return undefined;
    const again = () => setTimes((n) => n + 1);
    connection.addEventListener("there", again);
    return () => connection.removeEventListener("there", again);
  }, [problem, times]);
  const tell = (value) => (asked.current.abort(), setTold(value)); // an answer under way is older
  return { told, tell, problem, again: () => setTimes((n) => n + 1) };
}

/** What the server tells at a path, asked again whenever the query or `version` changes. */
export const useTold = (client, path, query = {}, version = 0) =>
  useAsked((signal) => client.json("GET", path, { query, signal }), [...Object.values(query), version]);

/** Why something did not work, until the next action: [problem, setProblem]. */
export function useProblem() {
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const clear = ({ target }) => target.closest("button, a, [type=checkbox]") && setProblem("");
    const back = () => isUnreachable(problem) && setProblem("");
    if (problem) addEventListener("click", clear, true);
    connection.addEventListener("back", back);
    return () => (removeEventListener("click", clear, true), connection.removeEventListener("back", back));
  }, [problem]);
  return [problem, setProblem];
}

/** Doing things: [why it did not work, act, isBusy]. `act(work)` is a handler. Until the work is done its button looks busy and does nothing. */
export function useAct() {
  const [problem, setProblem] = useProblem();
  const [isBusy, setBusy] = useState(false);
  const act = (work) => async (event) => {
    event.preventDefault();
    const release = occupy(controlOf(event));
    if (!release) return;
    setProblem("");
    setBusy(true);
    await work(event).catch((error) => setProblem(reason(error)));
    setBusy(false);
    release();
  };
  return [problem, act, isBusy];
}

/** What one has clicked; of a form that was sent, its button. */
function controlOf({ currentTarget, submitter }) {
  if (submitter) return submitter;
  if (currentTarget.localName === "form") return currentTarget.querySelector("button");
  return currentTarget.closest("label") ?? currentTarget;
}

/**
 * Makes a control look busy, with all others in the same `data-together`. It keeps the keyboard, which a disabled one would not.
 * Returns what ends this; null where it is busy already.
 */
function occupy(control) {
  const group = control.closest("[data-together]") ?? control;
  if (group.getAttribute("aria-busy") === "true") return null;
  group.setAttribute("aria-busy", "true");
  control.setAttribute("aria-disabled", "true");
  return () => {
    group.removeAttribute("aria-busy");
    control.removeAttribute("aria-disabled");
  };
}

/** What has the keyboard may go, with what it did: then the nearest of what was around it has it. Returns what ends this. */
export function keepFocusNear() {
  let around = [];
  const note = ({ target }) => {
    around = [];
    for (let each = target; each && each !== document.body; each = each.parentElement) around.push(each);
  };
  const look = () => {
    if (document.activeElement !== document.body || !around.length || around[0].isConnected) return;
    const near = around.find((each) => each.isConnected && each.localName !== "dialog");
    around = [];
    if (!near) return;
    if (near.tabIndex < 0) near.tabIndex = -1;
    near.focus({ preventScroll: true });
  };
  const changes = new MutationObserver(look);
  changes.observe(document.body, { childList: true, subtree: true });
  addEventListener("focusin", note);
  return () => (changes.disconnect(), removeEventListener("focusin", note));
}

/** A button that opens one of several things, or closes it. */
export const Toggle = ({ of, open, set, label = of, ...more }) =>
  html`<button aria-expanded=${open === of} onClick=${() => set(open === of ? null : of)} ...${more}>${label}</button>`;

/** Buttons that open dialogs, by their names. */
export const Openers = ({ dialogs, onOpen }) => html`<p class="row">
  ${Object.keys(dialogs).map((name) => html`<button onClick=${() => onOpen(name)}>${name}</button>`)}</p>`;

/** A list that grows on request: [ref of the list, grew(count)]. The keyboard goes to the first entry after so many. */
export function useGrowing() {
  const list = useRef();
  const from = useRef(null);
  useLayoutEffect(() => {
    const entry = from.current === null ? null : list.current?.children[from.current];
    if (!entry) return;
    from.current = null;
    const control = entry.querySelector("button, a") ?? entry;
    if (control === entry) entry.tabIndex = -1;
    control.focus();
  });
  return [list, (count) => (from.current = count)];
}

/** Sends the form of a field of one line by Enter; not while an input method puts a word together. */
export function sendByEnter(event) {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  event.target.form.requestSubmit();
}

/** A form with its fields, and why saving did not work. */
export const Form = ({ save, problem, onSave, onCancel, children }) => html`<form class="editor" onSubmit=${onSave}>
  ${children}<${Problem} text=${problem} />
  <p class="row"><button class="main">${save}</button><button type="button" onClick=${onCancel}>${t("common.cancel")}</button></p>
</form>`;

/** A native modal dialog: it keeps the keyboard inside, closes by Escape, and gives the focus back. */
export function Dialog({ title, problem, onClose, children }) {
  const element = useRef();
  useLayoutEffect(() => {
    const [dialog, before] = [element.current, document.activeElement];
    dialog.showModal();
    return () => (dialog.remove(), before?.focus()); // nothing behind an open dialog takes the focus
  }, []);
  useLayoutEffect(() => element.current.querySelector("button").focus(), [title]);
  return html`<dialog ref=${element} aria-label=${title} onClose=${onClose}>
    <header><h2>${title}</h2><button onClick=${onClose}>${t("common.close")}</button></header>
    <${Problem} text=${problem} />${children}
  </dialog>`;
}
