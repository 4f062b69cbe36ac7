/* Keeps an open page up to date without loading it again, gives it Airflow's colours, and leads links to Airflow out of Airflow's frame.
   Without this script the page is as it was when it was opened. It asks for no address but the page's own. */
"use strict";

(() => {
  const root = document.documentElement;

  /* Airflow's own document where the page is a part of it; null where it is not, or where the browser keeps the two apart. */
  const outer = (() => {
    try {
      return window.parent === window ? null : window.parent.document;
    } catch {
      return null;
    }
  })();

  /* ---- Colours: Airflow writes the chosen theme into its html element as a class, and remembers it for all of its pages. */

  const remembered = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  };

  const paint = () => {
    const shown = outer && ["light", "dark"].find((name) => outer.documentElement.classList.contains(name));
    const theme = shown || remembered();
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme; // as the system has it
  };

  paint();
  window.addEventListener("storage", paint);
  if (outer) new MutationObserver(paint).observe(outer.documentElement, { attributeFilter: ["class"] });

  /* ---- Links to Airflow: its frame forbids what is in it to lead the window elsewhere, so that the link is followed in Airflow's document. */

  document.addEventListener("click", (event) => {
    const link = event.target.closest ? event.target.closest('a[target="_top"]') : null;
    if (!link || !outer || event.defaultPrevented) return;
    event.preventDefault();
    const twin = outer.createElement("a");
    twin.href = link.href;
    outer.body.append(twin);
    const { ctrlKey, metaKey, shiftKey } = event;
    twin.dispatchEvent(new outer.defaultView.MouseEvent("click", { bubbles: false, cancelable: true, ctrlKey, metaKey, shiftKey }));
    twin.remove();
  });

  /* ---- Updates: what has changed is changed in place, so that focus, selection, scroll positions and opened details stay. */

  const key = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") || node.id : "") || "";

  const morph = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.nodeValue = fresh.nodeValue;
      return;
    }
    const kept = old.nodeName === "DETAILS" ? ["open"] : []; // the reader's, not ours
    for (const { name } of [...old.attributes]) if (!kept.includes(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (!kept.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    morphChildren(old, fresh);
  };

  const morphChildren = (old, fresh) => {
    const known = new Map([...old.children].filter(key).map((child) => [key(child), child]));
    const wanted = [...fresh.childNodes];
    const coming = new Set(wanted.map(key).filter(Boolean));
    for (const [name, child] of known) if (!coming.has(name)) child.remove();
    let here = old.firstChild;
    const drop = () => {
      const gone = here;
      here = here.nextSibling;
      gone.remove();
    };
    for (const child of wanted) {
      const name = key(child);
      while (name && here && !key(here)) drop(); // or a row that stays would be moved around the blanks of one that has gone
      const same = name ? known.get(name) : here && !key(here) ? here : null;
      if (!same) {
        old.insertBefore(child, here);
        continue;
      }
      if (same === here) here = here.nextSibling;
      else old.insertBefore(same, here);
      morph(same, child);
    }
    while (here) drop();
  };

  const renew = (fresh) => {
    const focused = document.activeElement;
    for (const part of ["main", "footer"]) morph(document.querySelector(part), document.adoptNode(fresh.querySelector(part)));
    document.title = fresh.title;
    if (focused.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true }); // its row has moved
  };

  const isBusy = () => {
    const selection = document.getSelection();
    const focused = document.activeElement;
    return (selection && !selection.isCollapsed) || (focused && focused.matches("input, select, textarea"));
  };

  const start = () => {
    const every = Number(document.body.dataset.every) * 1000;
    if (!every) return; // a page with forms stays as it is
    const panel = document.getElementById("updates");
    const [button, note] = [panel.querySelector("button"), panel.querySelector("span")];
    const trouble = document.getElementById("trouble");
    let timer = 0;
    let asked = Date.now();
    let paused = false;

    const remember = (value) => {
      try {
        if (value === undefined) return sessionStorage.getItem("cdc-paused") === "yes";
        sessionStorage.setItem("cdc-paused", value ? "yes" : "no");
      } catch {
        /* a browser that keeps nothing: the choice ends with the page */
      }
      return false;
    };

    const show = (waits) => {
      button.setAttribute("aria-pressed", String(paused));
      if (paused) note.textContent = "The page stays as it is.";
      else if (waits) note.textContent = "Updates wait until no text is selected and no field has the focus.";
      else note.textContent = `The page is updated every ${every / 1000} seconds.`;
    };

    const waits = () => {
      if (!isBusy()) return false;
      show(true);
      plan(2000);
      return true;
    };

    const plan = (wait) => {
      clearTimeout(timer);
      if (!paused) timer = setTimeout(update, wait);
    };

    const update = async () => {
      if (document.hidden) return; // asked again when it is looked at
      if (waits()) return;
      asked = Date.now();
      try {
        const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin", redirect: "error" });
        if (!answer.ok) throw new Error(`the server answered with ${answer.status}`);
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (!fresh.getElementById("updates")) throw new Error("the answer is another page");
        if (paused || waits()) return;
        renew(fresh);
        trouble.textContent = "";
        show(false);
      } catch (error) {
        trouble.textContent = `Not up to date: ${error.message}. The page tries again.`;
      }
      plan(every);
    };

    paused = remember();
    panel.hidden = false;
    button.addEventListener("click", () => {
      paused = !paused;
      remember(paused);
      show(false);
      if (!paused) update();
      else clearTimeout(timer);
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) plan(Math.max(0, asked + every - Date.now()));
    });
    show(false);
    plan(every);
  };

  document.addEventListener("DOMContentLoaded", start);
})();
