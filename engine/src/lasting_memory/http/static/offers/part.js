// Lines of one's own memory, offered to the folder of a group: by one's own yes to the text and the group, and nobody else's.

import { html, useEffect, useState } from "../lib/preact.js";
import { Dialog, useAct, useTold } from "../parts.js";
import { Problem } from "../text.js";
import { t } from "../texts.js";
import { titleOf } from "../words.js";

const BY = { members: t("offers.by_members"), operators: t("offers.by_operators") };
// A member's agent writes there at once, or operators decide.
const deciders = ({ writes }) => BY[writes === "allow" ? "members" : "operators"];

/** A button beside a fact for each group of this person's. `name` is the fact's text, cut for a label. */
function OfferButtons({ session, path, text, name }) {
  const [folder, setFolder] = useState(null);
  const button = (each) => html`<button key=${each.path} class="small" aria-label=${t("offers.to_of", { group: each.group, text: name })}
    onClick=${() => setFolder(each)}>${t("offers.to", { group: each.group })}</button>`;
  return html`${session.memory.shared.map(button)}
    ${folder && html`<${OfferLine} session=${session} path=${path} text=${text} folder=${folder} onClose=${() => setFolder(null)} />`}`;
}

/** The text and the group, by their names, before it is offered. */
function OfferLine({ session, path, text, folder, onClose }) {
  const [problem, act, isBusy] = useAct();
  const [note, setNote] = useState("");
  const { group } = folder;
  const offer = act(async ({ target }) => {
    await sent(session, { path, text, folder: folder.path, group }, target);
    setNote(t("offers.made", { group }));
  });
  return html`<${Dialog} title=${t("offers.to", { group })} problem=${problem} onClose=${onClose}>
    <p class="fact" dir="auto">${text}</p>
    <p>${t("offers.to_group", { group, folder: folder.path })} ${deciders(folder)}</p>
    <p>${t("offers.about")}</p>
    ${note ? html`<p role="status">${note}</p>` : html`<${Confirm} group=${group} text=${text} isBusy=${isBusy} onOffer=${offer} />`}
  <//>`;
}

/** Offer a line, as the form says whether one's own stays. */
const sent = ({ memory }, line, form) => {
  const keep = new FormData(form).has("keep");
  return memory.change("POST", "/memory/offers", { body: { ...line, keep } });
};

const Confirm = ({ group, text, isBusy, onOffer, children }) => html`<form class="editor" onSubmit=${onOffer}>
  <label class="switch"><input type="checkbox" name="keep" checked />${t("offers.keep")}</label>
  <p class="row"><button class="main" disabled=${isBusy} aria-label=${t("offers.to_of", { group, text })}>${t("offers.to", { group })}</button>${children}</p>
</form>`;

/** What waits: prepared by one's agent, offered by oneself, and offered by others where one decides. */
function Offers({ session }) {
  const { client, memory } = session;
  const { told, problem } = useTold(client, "/memory/offers", {}, memory.version);
  const [isOpen, setOpen] = useState(false);
  const mine = told?.offers ?? [];
  const prepared = mine.filter(({ status }) => status === "prepared");
  const count = prepared.length + (told?.to_decide.length ?? 0) + (told?.more ?? 0);
  useEffect(() => memory.wait(count, "offers"), [count]);
  const isThere = mine.length > 0 || count > 0;
  return html`${(isThere || isOpen) && html`<p><button class=${count ? "main" : ""} onClick=${() => setOpen(true)}>${t("offers.title")}
      ${count > 0 && html` <span class="badge">${count}</span>`}</button></p>`}
    <${Problem} text=${problem} />
    ${isOpen && html`<${Waiting} session=${session} told=${told} prepared=${prepared} onClose=${() => setOpen(false)} />`}`;
}

function Waiting({ session, told, prepared, onClose }) {
  const [problem, act, isBusy] = useAct();
  const { memory } = session;
  const decided = (told?.offers ?? []).filter(({ status }) => status !== "prepared");
  const theirs = told?.to_decide ?? [];
  const isEmpty = !prepared.length && !decided.length && !theirs.length;
  const withdraw = (id) => act(() => memory.change("DELETE", `/memory/offers/${id}`));
  const decide = (id, accept) => act(() => memory.change("POST", `/memory/offers/${id}`, { body: { accept } }));
  const confirmed = (each) => act(({ target }) => sent(session, { path: each.path, text: each.text, folder: each.folder, group: each.group }, target));
  const doubt = (each) => each.source === "unconfirmed" && html`<p class="quiet unconfirmed">${t("facts.unconfirmed")}</p>`;
  const prepare = (each) => html`<li key=${each.id} data-together><p class="fact" dir="auto">${each.text}</p>
    ${doubt(each)}<p class="quiet">${t("offers.to_group", each)} ${titleOf(memory, each.path)}</p>
    <${Confirm} group=${each.group} text=${each.text} isBusy=${isBusy} onOffer=${confirmed(each)}>
      <button type="button" aria-label=${t("offers.drop_of", each)} onClick=${withdraw(each.id)}>${t("offers.drop")}</button><//></li>`;
  const own = (each) => html`<li key=${each.id}><p class="fact" dir="auto">${each.text}</p><p class="quiet">${BECAME[each.status](each)}</p>
    ${each.status === "open" && html`<button class="small" aria-label=${t("offers.withdraw_of", each)} onClick=${withdraw(each.id)}>${t("offers.withdraw")}</button>`}</li>`;
  const other = (each) => html`<li key=${each.id} data-together><p class="fact" dir="auto">${each.text}</p>
    ${each.source === "unconfirmed" && html`<p class="quiet unconfirmed">${t("offers.unconfirmed")}</p>`}
    <p class="quiet">${t("offers.from", { ...each, organization: each.org_id })}</p>
    <p class="row"><button class="main" aria-label=${t("offers.accept_of", each)} onClick=${decide(each.id, true)}>${t("offers.accept")}</button>
      <button aria-label=${t("offers.decline_of", each)} onClick=${decide(each.id, false)}>${t("offers.decline")}</button></p></li>`;
  const list = (title, about, entries, entry) => entries.length > 0 && html`<section aria-label=${title}><h3>${title}</h3>
    ${about && html`<p class="quiet">${about}</p>`}<ul class="trash" aria-label=${title}>${entries.map(entry)}</ul></section>`;
  return html`<${Dialog} title=${t("offers.title")} problem=${problem} onClose=${onClose}>
    <p>${t("offers.about")}</p>
    ${isEmpty && html`<p class="quiet" role="status">${t("offers.none")}</p>`}
    ${list(t("offers.prepared"), "", prepared, prepare)}
    ${list(t("offers.decide"), t("offers.decide_about"), theirs, other)}
    ${told?.more > 0 && html`<p class="quiet">${t("offers.more", { count: told.more })}</p>`}
    ${list(t("offers.mine"), "", decided, own)}
  <//>`;
}

// What became of an offer of one's own.
const BECAME = {
  open: (of) => t("offers.waits", of),
  accepted: (of) => t("offers.accepted", of),
  declined: (of) => t("offers.declined", of),
};

export const FactActions = OfferButtons;
export const AboveChanges = Offers;
