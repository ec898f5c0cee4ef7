// The page: who is signed in, and what is beside what. A token lives in a variable of the session's and nowhere else, but for
// that of a development server's person, whom a reload keeps.

import { Changes } from "./changes.js";
import { Chat } from "./chat.js";
import { byToken, connect, reason } from "./client.js";
import { conversation } from "./conversation.js";
import { Conversations, titleOf } from "./conversations.js";
import { Files } from "./file.js";
import { Knowledge } from "./knowledge.js";
import { html, render, useEffect, useMemo, useReducer, useRef, useState } from "./lib/preact.js";
import { watched } from "./memory.js";
import { keepFocusNear } from "./parts.js";
import { Settings } from "./settings.js";
import { Offer, SignIn, forget, keptToken, provider, remember, tokenInAddress } from "./signin.js";
import { Problem, isId } from "./text.js";
import { t } from "./texts.js";
import { Trash } from "./trash.js";
import { Policies, Prompt } from "./views.js";

// What comes off is a folder with a part.js, which the server names here: what that exports is added to the page.
const named = document.querySelector('meta[name="parts"]').content.split(" ").filter(Boolean);
const parts = await Promise.all(named.map((name) => import(`./${name}`)));
const added = (name) => Object.assign({}, ...parts.map((part) => part[name]));
// Each opens a dialog from one of the places, and is given the session and onClose: another one is one more line.
const CHANGES_DIALOGS = { ...added("changesDialogs"), [t("trash.title")]: Trash };
const DATA_DIALOGS = added("dataDialogs");
const SETTINGS_DIALOGS = { [t("files.title")]: Files, [t("policies.opener")]: Policies, [t("prompt.opener")]: Prompt };
const OPERATORS_DIALOGS = added("operatorsDialogs");
const OWN = [t("files.title")]; // about files of one's own, which nobody has where memory is shared
// Beside the conversation; on a phone all are in one bar, one at a time.
const PLACES = {
  chat: t("page.place_chat"),
  facts: t("page.place_facts"),
  list: t("page.place_list"),
  changes: t("page.place_changes"),
  settings: t("page.place_settings"),
};
const PANELS = ["facts", "changes", "settings"]; // share one side of a wide screen, where the others are always shown
const NARROW = matchMedia("(max-width: 56rem)"); // as in style.css
const SWITCHES = added("switches");
const FACT_ACTIONS = parts.flatMap(({ FactActions }) => FactActions ?? []); // beside each fact
const ABOVE_CHANGES = parts.flatMap(({ AboveChanges }) => AboveChanges ?? []);

const idInAddress = () => (isId(location.hash.slice(1)) ? location.hash.slice(1) : null);
const useCount = () => useReducer((n) => n + 1, 0);

/** Whether there is room for one place at a time only. */
function useIsNarrow() {
  const [isNarrow, set] = useState(NARROW.matches);
  useEffect(() => {
    const look = () => set(NARROW.matches);
    NARROW.addEventListener("change", look);
    return () => NARROW.removeEventListener("change", look);
  }, []);
  return isNarrow;
}

function App() {
  const [signed, setSigned] = useState(null); // { client, me, session }
  const [offered, setOffered] = useState(null); // the same, of a token in the address: others can send one of theirs
  const [ended, setEnded] = useState(""); // why the last session is over
  const last = useRef({}); // { client, me, talk, isOver } of the last session: its person finds what was not sent in it
  const open = async (session) => {
    const client = connect(session, (why) => {
      if (last.current.client === client) last.current.isOver = true;
      forget();
      setSigned((now) => (now?.client === client ? null : now));
      setEnded(why);
    });
    setEnded("");
    const me = await client.json("GET", "/memory/me");
    return { client, me, session };
  };
  const enter = (opened) => (remember(opened.session), setOffered(null), setSigned(opened));
  const [isLooking, setLooking] = useState(Boolean(keptToken() || provider));
  const isSigned = () => last.current.client && !last.current.isOver;
  const signOut = () => {
    history.replaceState(null, "", location.pathname);
    last.current = {};
    forget();
    setSigned(null);
    signed.session.signOut();
  };
  useEffect(() => {
    const offerToken = (token) => {
      const offer = (opened) => isSigned() || setOffered(opened);
      if (token && !isSigned()) open(byToken(token)).then(offer, (error) => setEnded(reason(error)));
    };
    const arrive = () => offerToken(tokenInAddress());
    const comeBack = async () => {
      const token = tokenInAddress();
      const session = await provider.arrive();
      if (session) enter(await open(session));
      else offerToken(token);
    };
    const kept = keptToken();
    // Who is signed in stays so: a token in the address, which others can send, waits for no sign-in then.
    if (kept) tokenInAddress(), open(byToken(kept)).then(enter, (error) => setEnded(error.status ? "" : reason(error))).finally(() => setLooking(false));
    else if (provider) comeBack().catch((error) => setEnded(reason(error))).finally(() => setLooking(false));
    else arrive();
    addEventListener("hashchange", arrive);
    return () => removeEventListener("hashchange", arrive);
  }, []);
  if (isLooking) return html`<main class="sign-in"><p class="quiet" role="status">${t("page.signing_in")}</p></main>`;
  if (!signed && offered)
    return html`<${Offer} me=${offered.me} onAccept=${() => enter(offered)} onDecline=${() => setOffered(null)} />`;
  if (!signed) return html`<${SignIn} ended=${ended} onToken=${(token) => open(byToken(token)).then(enter)} />`;
  return html`<${Signed} ...${signed} last=${last} onSignOut=${signOut} />`;
}

function Signed({ client, me, last, onSignOut }) {
  const [, changed] = useCount();
  const [answers, answered] = useCount();
  const [dialog, setDialog] = useState(null); // { name, first }
  const [place, setPlace] = useState("chat");
  const [panel, setPanel] = useState("facts");
  const isNarrow = useIsNarrow();
  const go = (name) => {
    setPlace(name);
    if (PANELS.includes(name)) setPanel(name);
  };
  const memory = useMemo(() => watched(client, changed), []);
  const session = useMemo(() => ({ client, memory, me, factActions: FACT_ACTIONS }), []);
  const moved = () => {
    if (idInAddress() !== talk.id) history.pushState(null, "", talk.id ? `#${talk.id}` : location.pathname);
    changed();
  };
  const talk = useMemo(() => conversation(client, me.agents, { person: `${me.org_id} ${me.user_id}`, changed: moved, decided: memory.decided, wrote: () => memory.refresh(), answered }), []);
  const show = (id) => {
    setDialog(null);
    setPlace("chat");
    if (id !== talk.id || !id) talk.open(id);
  };
  useEffect(() => {
    const look = () => document.visibilityState === "visible" && memory.refresh();
    const follow = () => (tokenInAddress() ? moved() : show(idInAddress())); // a token replaces nobody who is signed in
    const before = last.current;
    last.current = { client, me, talk, isOver: false };
    const isSame = before.me?.user_id === me.user_id && before.me.org_id === me.org_id;
    if (isSame) talk.resume(before.talk, idInAddress() ?? (before.isOver ? before.talk.id : null));
    else follow();
    memory.refresh();
    const left = new AbortController();
    addEventListener("popstate", follow, { signal: left.signal });
    document.addEventListener("visibilitychange", look, { signal: left.signal });
    const release = keepFocusNear();
    return () => (release(), left.abort(), talk.end(), memory.leave());
  }, []);
  const forgotten = () => (talk.open(null), memory.refresh(), answered());
  const isOwn = me.own_memory;
  const places = Object.keys(PLACES).filter((name) => (isNarrow || PANELS.includes(name)) && (isOwn || name !== "changes"));
  const settings = { ...SETTINGS_DIALOGS, ...(me.operator ? OPERATORS_DIALOGS : {}) };
  if (!isOwn) OWN.forEach((name) => delete settings[name]);
  const View = { ...CHANGES_DIALOGS, ...DATA_DIALOGS, ...settings }[dialog?.name];
  const onOpen = (name) => setDialog({ name });
  const onFile = (path) => setDialog({ name: t("files.title"), first: path });
  const current = isNarrow ? place : panel;
  const pending = memory.changes.length + memory.waiting;
  const goer = (name) => html`<button key=${name} aria-current=${current === name ? "page" : undefined} onClick=${() => go(name)}>
    ${PLACES[name]}${name === "changes" && pending > 0 && html` <span class="badge">${pending}</span>`}</button>`;
  const beside = (name, content) => html`<div key=${name} class="panel" hidden=${panel !== name}>${content}</div>`;
  // Long lists, which are not gone through again for every word of an answer.
  const knowledge = useMemo(() => html`<${Knowledge} session=${session} onFile=${onFile} />`, [memory.version]);
  const changes = useMemo(
    () => html`<${Changes} session=${session} above=${ABOVE_CHANGES} dialogs=${CHANGES_DIALOGS} onOpen=${onOpen} />`,
    [memory.version],
  );
  const decisions = useMemo(
    () => html`<${Settings} session=${session} switches=${SWITCHES} dataDialogs=${DATA_DIALOGS} dialogs=${settings}
      onOpen=${onOpen} onForgotten=${forgotten} />`,
    [memory.version],
  );
  const version = `${answers} ${talk.id}`;
  const first = [...talk.messages.values()].find(({ type }) => type === "human");
  const title = first && !talk.isLoading ? titleOf(first) : "";
  const conversations = useMemo(
    () => html`<${Conversations} session=${session} current=${talk.id} title=${title} version=${version} onOpen=${show} />`,
    [version, title],
  );
  return html`<div class=${`page at-${place}`}>
    <header class="top">
      <h1>${t("page.title")}</h1>
      <p>${me.user_id} <span class="quiet">${me.org_id}</span></p>
      <button onClick=${onSignOut}>${t("page.sign_out")}</button>
    </header>
    <main>
      <${Chat} talk=${talk} memory=${memory} me=${me} />
    </main>
    <nav class="places" aria-label=${t("page.places")}>${places.map(goer)}</nav>
    <section class="beside" aria-label=${t("page.beside")}>
      <${Problem} text=${isOwn && memory.problem} />
      ${beside("facts", knowledge)}
      ${isOwn && beside("changes", changes)}
      ${beside("settings", decisions)}
    </section>
    ${conversations}
    ${View && html`<${View} session=${session} first=${dialog.first} onClose=${() => setDialog(null)} />`}
    <p class="unseen" role="status">${said(talk, answers)}</p>
  </div>`;
}

/** One announcement an answer, for who does not see it come. */
function said(talk, answers) {
  if (talk.isGoing || !answers) return "";
  if (talk.interrupts.length) return t("interrupts.waits");
  return t(talk.note ? "page.no_answer" : "page.answered");
}

render(html`<${App} />`, document.body);
