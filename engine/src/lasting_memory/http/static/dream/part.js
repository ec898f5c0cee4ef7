// Having all conversations read again: the estimate, how far it is, and stopping it.

import { html, useEffect, useState } from "../lib/preact.js";
import { Dialog, pause, useAct, useAsked } from "../parts.js";
import { t } from "../texts.js";

const LOOK_MILLISECONDS = 3000;

const STATUS = {
  reading: t("dream.status_reading"),
  paused: t("dream.status_paused"),
  proposed: t("dream.status_proposed"),
  ended: t("dream.status_ended"),
  failed: t("dream.status_failed"),
};

// Why it waits or ended.
const REASON = {
  paused: t("dream.reason_paused"),
  cap: t("dream.reason_cap"),
  same: t("dream.reason_same"),
  stopped: t("dream.reason_stopped"),
  decided: t("dream.reason_decided"),
  deleted: t("dream.reason_deleted"),
  no_answer: t("dream.reason_no_answer"),
  undecided: t("dream.reason_undecided"),
  refused: t("dream.reason_refused"),
};

function Dream({ session: { client, memory }, onClose }) {
  const ask = async (signal) => (await client.json("GET", "/memory/dream", { signal })).dream;
  const { told: dream, problem, again } = useAsked(ask, []);
  const [refused, act, isBusy] = useAct();
  const [estimate, setEstimate] = useState(null);
  const isReading = dream?.status === "reading";
  const waits = dream?.status === "paused" || dream?.status === "failed";
  useEffect(() => {
    let isOpen = true;
    if (isReading) pause(LOOK_MILLISECONDS).then(() => isOpen && again());
    return () => (isOpen = false);
  }, [dream]);
  useEffect(() => void (dream?.status === "proposed" && memory.refresh()), [dream?.status]);
  const begin = (tokens) => act(async () => {
    const query = { from: "beginning", ...(tokens && { tokens: String(tokens) }) };
    const answer = await client.json("POST", "/memory/consolidate", { query });
    setEstimate("dream" in answer ? null : answer);
    again();
  });
  const stop = act(async () => {
    await client.send("DELETE", "/memory/dream");
    again();
  });
  const counted = (of) => ({
    tokens: of.tokens,
    conversations: t("consolidation.conversations", { count: of.conversations }),
    messages: t("consolidation.messages", { count: of.messages }),
  });
  return html`<${Dialog} title=${t("dream.title")} problem=${refused || problem} onClose=${onClose}>
    <p>${t("dream.about")}</p>
    ${dream && html`<p role="status">${STATUS[dream.status]} ${REASON[dream.reason] ?? ""}</p>`}
    ${(isReading || waits) && html`<${Progress} dream=${dream} />
      <p class="row">${waits && html`<button class="main" disabled=${isBusy} onClick=${begin()}>${t("dream.go_on")}</button>`}
        <button disabled=${isBusy} onClick=${stop}>${t("dream.stop")}</button></p>`}
    ${!isReading && !waits && !estimate && html`<p class="row"><button class="main" disabled=${isBusy} onClick=${begin()}>${t("dream.estimate")}</button></p>`}
    ${!isReading && !waits && estimate && html`<p>${t("dream.estimated", counted(estimate))}</p>
      <p class="row"><button class="main" disabled=${isBusy || !estimate.tokens} onClick=${begin(estimate.tokens)}>${t("dream.begin")}</button>
        <button disabled=${isBusy} onClick=${() => setEstimate(null)}>${t("dream.cancel")}</button></p>`}
  <//>`;
}

function Progress({ dream }) {
  const { read, conversations, tokens, cap } = dream;
  return html`<progress aria-label=${t("dream.progress_label")} value=${read} max=${Math.max(conversations, 1)}></progress>
    <p class="quiet">${t("dream.progress", { read, conversations, tokens, cap })}</p>
    ${dream.left_out > 0 && html`<p class="quiet">${t("dream.left_out", { count: dream.left_out })}</p>`}`;
}

export const changesDialogs = { [t("dream.title")]: Dream };
