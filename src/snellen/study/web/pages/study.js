// Nothing here is needed to take part: numbers become sliders, time is measured more finely, pictures are loaded ahead.
"use strict";

// A form is sent once, however often the button is pressed; on a slow line it can be sent again after ten seconds.
for (const form of document.forms) {
  let sent = -Infinity;
  form.addEventListener("submit", (event) => {
    if (performance.now() - sent < 10000) event.preventDefault();
    else sent = performance.now();
  });
}

// A page that the back button brings out of memory may have been answered since.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

// Time on the page while it is visible; after reloading, the clock goes on.
const timed = document.querySelector("form[data-timed]");
if (timed) {
  const name = "snellen " + timed.elements.csrf.value.slice(0, 16);
  let stored = 0;
  try { stored = Number(sessionStorage.getItem(name)) || 0; } catch { /* storage may be forbidden */ }
  let spent = Math.max(Number(timed.elements.ms.value) || 0, stored);
  let since = document.hidden ? null : performance.now();
  const total = () => Math.round(spent + (since === null ? 0 : performance.now() - since));
  document.addEventListener("visibilitychange", () => {
    spent = total();
    since = document.hidden ? null : performance.now();
  });
  timed.addEventListener("submit", () => { timed.elements.ms.value = total(); });
  addEventListener("pagehide", () => {
    try { sessionStorage.clear(); sessionStorage.setItem(name, total()); } catch { /* then it is measured anew */ }
  });
}

// A number gets a slider beside it, which has no position until it is touched, so that there is no default answer.
for (const question of document.querySelectorAll(".number")) {
  const number = question.querySelector("input");
  const slider = document.createElement("input");
  Object.assign(slider, { type: "range", min: number.min, max: number.max, step: "1" });
  slider.setAttribute("aria-label", question.querySelector("label").textContent);
  const show = () => {
    const set = number.value !== "" && number.validity.valid;
    slider.classList.toggle("unset", !set);
    number.placeholder = "–";
    if (set) {
      slider.value = number.value;
      slider.removeAttribute("aria-valuetext");
    } else {
      slider.setAttribute("aria-valuetext", question.dataset.unset);
    }
    const share = (slider.value - slider.min) / (slider.max - slider.min);
    slider.style.setProperty("--share", set ? share : 0);
    question.querySelector(".state").hidden = set;
  };
  const take = () => { number.value = slider.value; show(); };
  const state = document.createElement("span");
  state.className = "state";
  state.textContent = question.dataset.unset;
  number.after(state);
  slider.addEventListener("input", take);
  slider.addEventListener("click", take);
  number.addEventListener("input", show);
  question.querySelector(".line").prepend(slider);
  question.querySelector(".slides").hidden = false;
  question.classList.add("slid");
  show();
}

// The sentence about a refused field disappears when the field is changed.
for (const question of document.querySelectorAll(".question, .statement")) {
  const forgive = () => {
    for (const element of [question, ...question.querySelectorAll("[aria-invalid]")]) {
      element.removeAttribute("aria-invalid");
      const left = (element.getAttribute("aria-describedby") || "").split(" ").filter((id) => id && !id.endsWith("-wrong"));
      if (left.length) element.setAttribute("aria-describedby", left.join(" "));
      else element.removeAttribute("aria-describedby");
    }
    for (const sentence of question.querySelectorAll(".wrong")) sentence.remove();
  };
  question.addEventListener("input", forgive);
  question.addEventListener("click", (event) => { if (event.target.type === "range") forgive(); });
}

// Pictures of the next pages, once this page is complete.
const next = document.querySelector("main[data-ahead]");
if (next) {
  addEventListener("load", () => {
    for (const name of next.dataset.ahead.split(" ")) new Image().src = "/picture/" + name;
  });
}
