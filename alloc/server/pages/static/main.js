// The page: starts its parts, once the server lets it in.

import { LOCKED_OUT, UNAUTHORIZED, forgetToken, keepToken } from "./api.js";
import { openFromAddress, startAnswer } from "./answer.js";
import { announce, byId } from "./dom.js";
import { offerOperations, startOptions } from "./options.js";
import { giveProblem, giveText, giveTopology, startProblem } from "./problem.js";
import { clearAnswer } from "./errors.js";
import { listJobs, startScenarios } from "./scenarios.js";
import { startUploads } from "./uploads.js";

let entered = false;
/** Read what the server offers; ask for a token if it wants one, at first or when one is revoked. */
async function enter() {
  try {
    if (!entered) {
      await startOptions();
      await startProblem(offerOperations);
    }
    await listJobs();
  } catch (problem) {
    if (problem.status === UNAUTHORIZED) {
      askForToken(problem);
      return;
    }
    byId("errors").textContent = problem.message;
    throw problem;
  }
  byId("access").hidden = true;
  if (entered) return;
  entered = true;
  document.documentElement.dataset.ready = "yes";
  await openFromAddress();
}

let asked = false;
function askForToken(problem) {
  forgetToken();
  byId("access").hidden = false;
  byId("access-error").textContent = asked ? problem.message : "";
  asked = true;
  byId("token").focus();
}

byId("access-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(byId("token").value.trim());
  byId("token").value = "";
  announce("Looking at the token.");
  enter();
});

document.addEventListener(LOCKED_OUT, ({ detail }) => {
  if (entered) askForToken(detail);
});
startAnswer(listJobs);
startScenarios();
startUploads({ text: giveText, problem: giveProblem, topology: giveTopology, nothing: clearAnswer });
enter();
