/* Sends the form of a run to Airflow's public API, as the visitor, and says in words what came of it; copies commands.
   It asks no other server, and sends nothing before somebody has pressed the form's button. */
"use strict";

(() => {
  const NOTHING = "Nothing was started.";
  const UNKNOWN = "It is not known whether the run was made. Send the form again: it asks for the same run, which is not made twice.";

  /* What Airflow's refusals mean, and what to do: [what, what then]. */
  const refusal = (status, why, dag) => {
    const reason = why ? ` It says: ${why}` : "";
    if (status === 400 || status === 422)
      return [`Airflow refuses the run.${reason}`, `${NOTHING} Look at the DAG and its import errors, and correct what is named.`];
    if (status === 401) return ["Your login has ended.", `${NOTHING} Log in to Airflow in another tab, and send the form again.`];
    if (status === 403)
      return [
        `You may not start runs of ${dag}.`,
        `${NOTHING} Ask for the right to create runs of this DAG, or give the configuration below to somebody who has it.`,
      ];
    if (status === 404)
      return [`Airflow has no DAG ${dag}.${reason}`, `${NOTHING} Its file was removed or cannot be read: see the import errors on Airflow's first page.`];
    if (status >= 500) return [`Airflow failed with ${status}.${reason}`, UNKNOWN];
    return [`Airflow answered with ${status}.${reason}`, `${NOTHING} Look at the DAG in Airflow.`];
  };

  /* The API gives a sentence, or a list of what is wrong with the request. */
  const reasonOf = (answer) => {
    const detail = answer && answer.detail;
    if (Array.isArray(detail)) return detail.map((one) => [(one.loc || []).slice(1).join("."), one.msg].filter(Boolean).join(": ")).join("; ");
    if (detail && typeof detail === "object") return detail.reason || detail.message || JSON.stringify(detail);
    return detail ? String(detail) : "";
  };

  const confOf = (form) => {
    const conf = JSON.parse(form.dataset.conf);
    for (const field of form.elements) {
      if (!field.name) continue;
      if (field.type !== "checkbox") conf[field.name] = field.value.trim();
      else if (field.checked) conf[field.name] = true;
    }
    return conf;
  };

  const say = (form, bad, lines, link) => {
    const place = form.querySelector(".answer");
    place.classList.toggle("bad", bad);
    const shown = lines.map((text) => Object.assign(document.createElement("p"), { textContent: text }));
    if (link) {
      const line = document.createElement("p");
      line.append(Object.assign(document.createElement("a"), { ...link, target: "_top", className: "out" }));
      shown.push(line);
    }
    place.replaceChildren(...shown);
  };

  const newId = () => `manual__${new Date().toISOString()}_${crypto.getRandomValues(new Uint32Array(1))[0].toString(16)}`;

  const send = async (form) => {
    const { runs, dag, dagPage, paused } = form.dataset;
    const id = (form.dataset.runId ||= newId()); // kept until the run is known to be there, so that nothing is started twice
    const page = { href: `${dagPage}/runs/${encodeURIComponent(id)}`, textContent: "The run in Airflow" };
    const done = (text) => {
      delete form.dataset.runId;
      form.reset();
      say(form, false, [text, ...(paused ? ["The DAG is paused: the run waits until somebody ends the pause."] : [])], page);
    };
    let answer;
    try {
      answer = await fetch(runs, {
        method: "POST",
        mode: "same-origin",
        credentials: "same-origin",
        redirect: "error",
        headers: { "Content-Type": "application/json", Accept: "application/json" },
        body: JSON.stringify({ dag_run_id: id, logical_date: null, conf: confOf(form) }),
      });
    } catch {
      say(form, true, ["Airflow did not answer.", UNKNOWN]);
      return;
    }
    if (answer.ok) return done("The run is made.");
    if (answer.status === 409) return done("The run was made before; it is not started twice.");
    say(form, true, refusal(answer.status, reasonOf(await answer.json().catch(() => null)), dag));
  };

  for (const form of document.querySelectorAll("form.run")) {
    const button = form.querySelector("button");
    button.disabled = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (button.disabled) return;
      button.disabled = true;
      say(form, false, ["Asking Airflow …"]);
      await send(form);
      button.disabled = false;
    });
  }

  /* ---- Commands */

  const show = () => {
    for (const button of document.querySelectorAll("button.copy[hidden]")) button.hidden = false;
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest ? event.target.closest("button.copy") : null;
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    } catch {
      getSelection().selectAllChildren(button.previousElementSibling); // browsers give the clipboard to pages over https and of this machine
    }
  });

  show();
  new MutationObserver(show).observe(document.querySelector("main"), { childList: true, subtree: true, attributeFilter: ["hidden"] });
})();
