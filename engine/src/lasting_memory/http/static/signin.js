// Signing in: by saying who one is where the server believes it, at one's identity provider, or by a token.

import { refusal } from "./client.js";
import { html } from "./lib/preact.js";
import { useAct } from "./parts.js";
import { Problem } from "./text.js";
import { filled, t } from "./texts.js";

const how = document.querySelector('meta[name="sign-in"]').content;
const isDev = how === "dev";
/** Where people sign in at their identity provider, the module for that; null elsewhere. */
export const provider = how === "provider" ? await import("./provider.js") : null;
const ASCII_WITHOUT_COLON = /^[ -9;-~]+$/;

const KEPT = "development token";

/** The token of a development server's person, which a reload finds again; "" for none. Any other token is in memory alone. */
export const keptToken = () => (isDev && sessionStorage.getItem(KEPT)) || "";
export const keepToken = (token) => isDev && (token ? sessionStorage.setItem(KEPT, token) : sessionStorage.removeItem(KEPT));

/** A reload finds this session again, as far as it may. */
export function remember({ only }) {
  if (only) keepToken(only);
  else provider.remember();
}
export function forget() {
  keepToken("");
  provider?.forget();
}

/** The token in the address, which is erased at once. */
export function tokenInAddress() {
  const token = location.hash.startsWith("#token=") ? location.hash.slice("#token=".length) : "";
  if (token) history.replaceState(null, "", location.pathname);
  return token;
}

/** A development token. `claims` has one a line, `team_id=red`; the server says so if it cannot read one. */
function devToken(identity, organization, claims) {
  if (!ASCII_WITHOUT_COLON.test(organization)) throw refusal(422, t("signin.not_ascii"));
  const pairs = claims.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const [, name, value] = /^([^=]+)=(.*)$/.exec(line) ?? [];
    if (!name) throw refusal(422, t("signin.no_claim", { line }));
    return `${encodeURIComponent(name.trim())}=${encodeURIComponent(value.trim())}`;
  });
  const query = pairs.length ? `?${pairs.join("&")}` : "";
  return `dev:${organization.trim()}:${encodeURIComponent(identity.trim())}${query}`;
}

/** `ended` says why the last session is over. */
export function SignIn({ ended, onToken }) {
  const [problem, act] = useAct();
  const submit = act(async ({ target }) => {
    const { identity, organization, claims, token } = Object.fromEntries(new FormData(target));
    if (provider) await provider.leave();
    else await onToken(isDev ? devToken(identity, organization, claims) : token.trim());
  });
  const dev = html`
    <label>${t("signin.identity")}<input name="identity" required autocomplete="username" placeholder="alice@example.com" /></label>
    <label>${t("signin.organization")}<input name="organization" required placeholder="acme" /></label>
    <details><summary>${t("signin.more")}</summary>
      <label>${t("signin.claims")}<textarea name="claims" rows="2" autocomplete="off" spellcheck=${false} placeholder="team_id=red"></textarea></label>
      <p class="quiet">${t("signin.claims_about")}</p></details>
    <p class="quiet">${t("signin.believes")}</p>`;
  const byToken = html`<label>${t("signin.token")}<input name="token" type="password" required autocomplete="off" /></label>
    <p class="quiet">${t("signin.token_about")}</p>`;
  const atProvider = () => html`<p class="quiet">${t("signin.provider_about", { host: provider.host })}</p>`;
  return html`<main class="sign-in">
    <h1>${t("page.title")}</h1>
    <p>${t("signin.about")}</p>
    <form onSubmit=${submit}>${provider ? atProvider() : isDev ? dev : byToken}<${Problem} text=${problem || ended} />
      <button class="main">${t("signin.sign_in")}</button></form>
  </main>`;
}

/** The question whether to sign in with the token in the address. It may be somebody's who wants to read along. */
export const Offer = ({ me, onAccept, onDecline }) => html`<main class="sign-in">
  <h1>${t("page.title")}</h1>
  <p>${filled("signin.offer", { identity: html`<b>${me.user_id}</b>`, organization: html`<b>${me.org_id}</b>` })}</p>
  <p class="quiet">${t("signin.offer_about")}</p>
  <p class="row"><button class="main" onClick=${onAccept}>${t("signin.yes")}</button>
    <button onClick=${onDecline}>${t("signin.no")}</button></p>
</main>`;
