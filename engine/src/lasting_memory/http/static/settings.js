// What one decides once: what is remembered, one's data, and a look at what is behind it.

import { reason } from "./client.js";
import { Data } from "./data.js";
import { html, useReducer, useRef } from "./lib/preact.js";
import { Openers, useProblem, useTold } from "./parts.js";
import { Problem } from "./text.js";
import { t } from "./texts.js";

/** `switches` are further controls, by name. `dataDialogs` and `dialogs` are by name, `onOpen(name)` opens one. */
export function Settings({ session, switches, dataDialogs, dialogs, onOpen, onForgotten }) {
  const { memory, me } = session;
  const isOwn = me.own_memory;
  if (!memory.groups && !memory.problem) return null; // they come together, and stay where they are
  return html`<section class="settings" aria-labelledby="settings">
    <header><h2 id="settings">${t("settings.title")}</h2></header>
    ${isOwn && html`<h3>${t("settings.remembering")}</h3><${Switches} session=${session} switches=${switches} />`}
    <h3>${t("data.label")}</h3>
    ${isOwn && html`<${Openers} dialogs=${dataDialogs} onOpen=${onOpen} />`}
    <${Data} session=${session} onForgotten=${onForgotten} />
    <h3>${t("settings.behind")}</h3>
    <${Openers} dialogs=${dialogs} onOpen=${onOpen} />
  </section>`;
}

/** What the switches show, and what one of them does: [shown, flip, problem]. `shown` is null until the server has told. */
function useSwitches({ client, memory }) {
  const { told, tell, problem } = useTold(client, "/memory/controls", {}, memory.version);
  const [refused, setRefused] = useProblem();
  const [, changed] = useReducer((n) => n + 1, 0);
  const clicks = useRef({}); // by name, the last click that the server has not answered: { isOn }
  const isOn = (name) => clicks.current[name]?.isOn ?? told?.[name] ?? false;
  const flip = (name, label) => async () => {
    const click = { isOn: !isOn(name) }; // not what the element says: whatever is drawn between a click and this sets it back
    const isLast = () => clicks.current[name] === click;
    const put = async () => isLast() && tell(await client.json("PUT", "/memory/controls", { body: { [name]: click.isOn } }));
    clicks.current[name] = click;
    setRefused("");
    changed();
    try {
      await memory.decide(put);
    } catch (error) {
      if (isLast()) setRefused(`${t("knowledge.switch_back", { label })} ${reason(error)}`);
    }
    if (isLast()) delete clicks.current[name];
    changed();
    memory.refresh();
  };
  const clicked = Object.fromEntries(Object.keys(clicks.current).map((name) => [name, isOn(name)]));
  const shown = told && { ...told, ...clicked };
  return [shown, flip, refused || problem];
}

/** Which changes wait for one's yes. */
const reviewed = ({ review, review_agent: agent }) =>
  `${t(review ? "knowledge.found_waits" : "knowledge.found_counts")} ${t(agent ? "knowledge.written_waits" : "knowledge.written_counts")}`;

function Switches({ session, switches }) {
  const [shown, flip, problem] = useSwitches(session);
  // They are there before the server has told how they are: what is below them stays where it is.
  const option = ([name, label]) => html`<label class="switch">
    <input type="checkbox" role="switch" checked=${shown?.[name] ?? false} disabled=${!shown} onChange=${flip(name, label)} />${label}</label>`;
  return html`<div class="decisions">
    ${Object.entries({ paused: t("knowledge.pause"), ...switches }).map(option)}
    ${shown?.paused && html`<p class="note">${t("knowledge.paused")}</p>`}
    ${(shown?.review || shown?.review_agent) && html`<p class="note">${reviewed(shown)}</p>`}
    <${Problem} text=${problem} />
  </div>`;
}
