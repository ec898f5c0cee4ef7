// Signing in at an OpenID provider: authorization code with PKCE. Tokens are in variables of this module and nowhere else.
// While one is away, the tab's session storage has what proves that this page asked (and no token), and the view to come back
// to; while one is signed in it has a mark, so that a reload asks the provider, which still knows who one is.

import { refusal } from "./client.js";
import * as oauth from "./lib/oauth4webapi.js";
import { isId } from "./text.js";
import { t } from "./texts.js";

const { issuer, client_id, scope, audience } = JSON.parse(document.querySelector('meta[name="provider"]').content);
const CLIENT = { client_id };
const ISSUER = new URL(issuer);
const isInsecure = ISSUER.protocol === "http:"; // which the server takes for a provider on its own machine alone
const PAGE = location.origin + location.pathname; // where the provider sends people back to
const AWAY = "sign-in under way";
const SIGNED_IN = "signed in";
const SECONDS_TO_ANSWER = 20;
// Seconds before its end at which a token is renewed.
const EARLY_SECONDS = 30;
// Errors by which a provider says that it would have to ask the person something.
const WOULD_ASK = ["login_required", "interaction_required", "consent_required", "account_selection_required"];
const JSON_WEB_TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;

export const host = ISSUER.host;

let isSignedOut = false; // by the person, since this page was opened

const options = () => ({ [oauth.allowInsecureRequests]: isInsecure, signal: AbortSignal.timeout(SECONDS_TO_ANSWER * 1_000) });

/** Whoever is signed in is so at the next reload, too, as long as the provider knows them. */
export const remember = () => sessionStorage.setItem(SIGNED_IN, "at the provider");
export const forget = () => sessionStorage.removeItem(SIGNED_IN);

/** The provider's addresses and abilities (OpenID Connect Discovery). */
async function discover() {
  const response = await oauth.discoveryRequest(ISSUER, options());
  const told = await response.clone().json();
  const isSame = String(told?.issuer).replace(/\/$/, "") === issuer.replace(/\/$/, ""); // but for a slash at the end
  return oauth.processDiscoveryResponse(isSame ? new URL(told.issuer) : ISSUER, response);
}

/** What went wrong at the provider, as a `refusal`. */
function refused(error) {
  if (error.constructor === Error) return error; // is one already
  if (error instanceof oauth.AuthorizationResponseError || error instanceof oauth.ResponseBodyError) {
    if (error.error === "access_denied") return refusal(403, t("signin.provider_refused", { host }));
    const code = /^[\w.-]{1,60}$/.test(error.error) ? error.error : "error";
    return refusal(403, t("signin.provider_error", { host, code }));
  }
  // `fetch` says so where there is no connection, or no permission to call.
  if (error.name === "TimeoutError" || (error instanceof TypeError && !error.code)) {
    return refusal(503, t("signin.provider_unreachable", { host }));
  }
  console.warn(`Signing in: ${error.message}`); // for whoever runs the server; it has no token
  return refusal(502, t("signin.provider_unusable", { host }));
}

const asRefusal = (error) => Promise.reject(refused(error));

/** Go to the provider. Returns if one comes back by the browser's button; rejects with a `refusal` if it cannot be found. */
export const leave = () => goThere(isSignedOut ? "login" : "").catch(asRefusal);

async function goThere(prompt) {
  const server = await discover();
  const [verifier, state, nonce] = [oauth.generateRandomCodeVerifier(), oauth.generateRandomState(), oauth.generateRandomNonce()];
  const there = new URL(oauth.resolveEndpoint(server, "authorization_endpoint", false, !isInsecure));
  const asked = {
    client_id,
    redirect_uri: PAGE,
    response_type: "code",
    scope,
    state,
    nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    ...(audience && { audience }),
    ...(prompt && { prompt }),
  };
  for (const [name, value] of Object.entries(asked)) there.searchParams.set(name, value);
  const view = isId(location.hash.slice(1)) ? location.hash : "";
  sessionStorage.setItem(AWAY, JSON.stringify({ verifier, state, nonce, view, isQuiet: prompt === "none" }));
  const cameBack = new Promise((done) => addEventListener("pageshow", ({ persisted }) => persisted && done(), { once: true }));
  location.assign(there);
  await cameBack;
}

/**
 * The session of who comes back from the provider, or is still known there; null for who is neither. Rejects with a `refusal`
 * where the provider did not sign somebody in who asked for it.
 */
export async function arrive() {
  const answer = new URL(location.href).searchParams;
  const away = JSON.parse(sessionStorage.getItem(AWAY));
  const wasSignedIn = Boolean(sessionStorage.getItem(SIGNED_IN));
  sessionStorage.removeItem(AWAY);
  forget();
  if (answer.has("code") || answer.has("error")) {
    history.replaceState(null, "", location.pathname + (away?.view ?? ""));
    return enter(answer, away).catch((error) => {
      if (away?.isQuiet && WOULD_ASK.includes(error.error)) return null;
      throw refused(error);
    });
  }
  if (wasSignedIn) await goThere("none").catch(asRefusal);
  return null;
}

/** The session that an answer in the page's address proves. `away` is what was kept while one was away. */
async function enter(answer, away) {
  if (answer.get("state") !== away?.state) throw refusal(403, t("signin.provider_stale"));
  const server = await discover();
  const checked = oauth.validateAuthResponse(server, CLIENT, answer, away.state);
  const asked = await oauth.authorizationCodeGrantRequest(server, CLIENT, oauth.None(), checked, PAGE, away.verifier, options());
  const checks = { expectedNonce: away.nonce, requireIdToken: true };
  return session(server, await oauth.processAuthorizationCodeResponse(server, CLIENT, asked, checks));
}

/** The token that the server reads: the access token, or the ID token where that is no JSON web token. */
const bearerOf = ({ access_token: access, id_token: id }) => (JSON_WEB_TOKEN.test(access) ? access : id);

/** Seconds for which a token is good that was just made, by the clock of who made it. */
function secondsOf(tokens) {
  const bearer = bearerOf(tokens);
  if (bearer === tokens.access_token && tokens.expires_in) return tokens.expires_in;
  const { exp, iat } = JSON.parse(atob(bearer.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
  return exp - (iat ?? Date.now() / 1_000);
}

/** Somebody who is signed in, for `connect`: `token()` gives a token that is good, `renew()` says whether there is a new one. */
function session(server, first) {
  let tokens = first;
  let goodUntil = 0;
  let renewing = null;
  const keep = (answer) => {
    tokens = { ...tokens, ...answer };
    const seconds = secondsOf(tokens);
    goodUntil = Date.now() + (seconds - Math.min(EARLY_SECONDS, seconds / 4)) * 1_000;
  };
  keep(first);

  async function renewed() {
    if (!tokens.refresh_token) return false;
    const asked = await oauth.refreshTokenGrantRequest(server, CLIENT, oauth.None(), tokens.refresh_token, options());
    keep(await oauth.processRefreshTokenResponse(server, CLIENT, asked));
    return true;
  }
  const failed = (error) => {
    // The provider knows the person no more; anything else may pass.
    if (error instanceof oauth.ResponseBodyError) throw refusal(401, t("signin.provider_over"));
    throw refused(error);
  };
  // Requests that need a new token at the same time share one: a refresh token may be good once.
  const renew = () => (renewing ??= renewed().catch(failed).finally(() => (renewing = null)));

  return {
    token: async () => {
      if (Date.now() >= goodUntil) await renew();
      return bearerOf(tokens);
    },
    renew,
    /** Sign out here and at the provider, which gets the browser. */
    signOut: () => {
      isSignedOut = true;
      const { refresh_token: token } = tokens;
      tokens = {};
      const goesOn = { ...options(), [oauth.customFetch]: (url, sent) => fetch(url, { ...sent, keepalive: true }) };
      if (token && server.revocation_endpoint) {
        oauth.revocationRequest(server, CLIENT, oauth.None(), token, goesOn).catch(() => {}); // it ends by itself later
      }
      if (!server.end_session_endpoint) return;
      const there = new URL(oauth.resolveEndpoint(server, "end_session_endpoint", false, !isInsecure));
      there.searchParams.set("client_id", client_id);
      there.searchParams.set("post_logout_redirect_uri", PAGE);
      location.assign(there);
    },
  };
}
