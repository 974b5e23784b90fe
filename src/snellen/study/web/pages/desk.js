// Keeps the numbers of the experimenter's page fresh, unless that is switched off.
"use strict";
const box = document.querySelector("#refresh");
if (box) {
  box.closest("label").hidden = false;
  try { box.checked = localStorage.getItem("refresh") !== "no"; } catch { /* storage may be forbidden */ }
  box.addEventListener("change", () => {
    try { localStorage.setItem("refresh", box.checked ? "yes" : "no"); } catch { /* then it is not stored */ }
  });
  setInterval(async () => {
    const live = document.querySelector("#live");
    if (!box.checked || document.hidden || live.contains(document.activeElement)) return;
    try {
      const response = await fetch(location.pathname, { credentials: "same-origin" });
      if (!response.ok) return;
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("#live");
      if (fresh) live.replaceWith(fresh);
    } catch { /* the server is away; the next attempt is in ten seconds */ }
  }, 10000);
}
