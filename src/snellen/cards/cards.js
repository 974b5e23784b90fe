// The page: the current view, the user's priorities, and the ranked list. The address holds all of it, after the sign #.

const data = JSON.parse(document.getElementById("data").textContent);
const find = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];
const MOST = 4;
const wishes = { levels: {}, cost: null, blackBox: false };
let picked = [];

/** An element with attributes and children; words become text, never markup. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children.flat().filter((child) => child !== null && child !== ""));
  return element;
}

// The address ---------------------------------------------------------------------------------------------------------

function stateText() {
  const fields = new URLSearchParams();
  for (const level of ["essential", "nice", "unwanted"]) {
    const names = Object.keys(data.wishes).filter((name) => wishes.levels[name] === level);
    if (names.length) fields.set(level, names.join(","));
  }
  if (wishes.cost !== null) fields.set("seconds", wishes.cost);
  if (wishes.blackBox) fields.set("black-box", "yes");
  if (picked.length) fields.set("compare", picked.map((id) => id.slice(5)).join(","));
  return fields.toString().replaceAll("%2C", ",");
}

function readState(text) {
  const fields = new URLSearchParams(text), names = (key) => (fields.get(key) || "").split(",").filter(Boolean);
  wishes.levels = {};
  for (const level of ["essential", "nice", "unwanted"])
    for (const name of names(level)) if (name in data.wishes) wishes.levels[name] = level;
  const seconds = parseFloat(fields.get("seconds"));
  wishes.cost = seconds > 0 ? seconds : null;
  wishes.blackBox = fields.get("black-box") === "yes";
  picked = names("compare").map((name) => `card-${name}`).filter((id) => data.methods.some((method) => method.id === id)).slice(0, MOST);
}

function addressParts() {
  let text = location.hash.slice(1);
  try { text = decodeURIComponent(text); } catch { /* a truncated address is read as it is */ }
  const cut = text.indexOf("?");
  return cut < 0 ? [text, null] : [text.slice(0, cut), text.slice(cut + 1)];
}

function keepAddress(place) {
  const state = stateText();
  const hash = `#${place}${state ? `?${state}` : ""}`;
  if (hash !== location.hash && (hash !== "#" || location.hash)) history.replaceState(null, "", hash);
}

// Views ---------------------------------------------------------------------------------------------------------------

let shownCard = null;

function show(place, moved) {
  const target = place ? document.getElementById(place) : null;
  const card = target ? target.closest("article.card") : null;
  const left = shownCard;
  shownCard = card ? card.id : null;
  document.documentElement.dataset.view = card ? "card" : "gallery";
  for (const article of all("article.card")) article.classList.toggle("shown", article === card);
  document.title = card ? card.querySelector(".card-title").textContent : find("h1").textContent;
  if (!moved) return;
  if (card && target === card) {
    window.scrollTo(0, 0);
    card.querySelector(".card-title").focus({ preventScroll: true });
  } else if (!card && left && place === "methods") {
    const link = find(`#methods a[href="#${left}"], #controls a[href="#${left}"]`);
    link.focus({ preventScroll: true });
    link.scrollIntoView({ block: "center" });
  } else if (target) {
    target.scrollIntoView();
    const heading = target.querySelector("h2[tabindex]");
    if (heading && !card) heading.focus({ preventScroll: true });
  }
}

function follow(moved) {
  const [place, state] = addressParts();
  if (state !== null) {
    readState(state);
    fillForm();
    answer();
    compare();
  }
  show(place, moved);
  keepAddress(place);
}

// Priorities ----------------------------------------------------------------------------------------------------------

const form = find("#wishes");

function fillForm() {
  for (const name of Object.keys(data.wishes)) form.elements[name].value = wishes.levels[name] || "unimportant";
  find("#cost").value = wishes.cost === null ? "" : wishes.cost;
  find("#black-box").checked = wishes.blackBox;
}

function readForm() {
  wishes.levels = {};
  for (const name of Object.keys(data.wishes)) {
    const level = form.elements[name].value;
    if (level !== "unimportant") wishes.levels[name] = level;
  }
  const seconds = parseFloat(find("#cost").value);
  wishes.cost = seconds > 0 ? seconds : null;
  wishes.blackBox = find("#black-box").checked;
}

const same = (first, second) => JSON.stringify(Object.entries(first).sort()) === JSON.stringify(Object.entries(second).sort());

const two = (value) => value.toFixed(2);
const lower = (text) => text[0].toLowerCase() + text.slice(1);
const span = (seconds) => (seconds < 1 ? `${Number((1000 * seconds).toPrecision(3))} ms` : `${Number(seconds.toPrecision(3))} s`);
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** One property of a method: what it is, and the grade as shape, word and number. */
function graded(method, name) {
  const word = method.words[name], { mark, kind } = data.marks[word];
  const number = method.grades[name] === null ? "" : ` ${two(method.grades[name])}`;
  return make("li", null, `${data.briefly[name]} `,
    make("span", { class: `v ${kind}` }, make("i", { "aria-hidden": "true" }, mark), word + number));
}

function line(words, items) {
  return items.length ? make("div", { class: "line" }, make("b", null, words), make("ul", null, items)) : null;
}

const CONDITIONS = {
  cost: (method) => method.seconds === null ? "what a map takes was not measured" : `a map takes ${span(method.seconds)}`,
  "black-box": (method) => method.inside.includes("unstated") ? "it does not state what it needs of the model" : method.inside.length ? `it looks inside the model (${method.inside.join(", ")})` : "it needs only outputs",
};

/** What a method gives up against the best, in words. */
function sacrificed(entry) {
  const lost = entry.sacrifice;
  if (!lost) return [];
  const [own, best] = [entry.method, lost.best].map((method) => two(method.grades[lost.name]));
  const unwanted = wishes.levels[lost.name] === "unwanted" ? "unwanted: " : "";
  return [make("li", null, `${unwanted}${data.briefly[lost.name]}, ${own}; ${lost.best.title} has ${best}`)];
}

/** The one or two that mattered: a second only where it made a fair share of what the first made, as in the terminal. */
const telling = (decided) => decided.slice(0, 2).filter((difference) => difference.gap >= data.telling * decided[0].gap);

function entryOf(entry, placed) {
  const method = entry.method, tile = find(`#methods a[href="#${method.id}"]`).closest("li").querySelector(".pic");
  const picture = tile ? make("span", { class: tile.className, "aria-hidden": "true" }) : null;
  const needs = (state) => entry.needs.filter((need) => need.state === state)
    .map((need) => (need.name in CONDITIONS ? make("li", null, CONDITIONS[need.name](method)) : graded(method, need.name)));
  return make("li", { class: "entry", "data-method": method.label },
    picture,
    make("h4", null, placed ? make("span", { class: "place" }, `${entry.place}.`) : null, make("a", { href: `#${method.id}` }, method.title),
      Number.isNaN(entry.score) ? null : make("small", null, `score ${two(entry.score)}`)),
    line("misses", needs("missed")),
    line("not known", needs("not known")),
    line("meets", needs("met")),
    line("ahead by", placed && entry.decided.length ? [make("li", null, telling(entry.decided).map((difference) => data.briefly[difference.name]).join("; "))] : []),
    line("gives up", sacrificed(entry)),
    line("also open", entry.open.map((name) => graded(method, name))));
}

/** How sure the first place is, in a sentence. */
function steady(entries) {
  if (entries.length < 2 || Number.isNaN(entries[0].score) || alike(entries).length === entries.length) return null;
  const shares = [...stability(entries, wishes)].filter(([, share]) => share >= 0.01).sort((first, second) => second[1] - first[1]);
  const words = shares.slice(0, 3).map(([entry, share], at) => `${entry.method.title}${at ? "" : " is first"} in ${Math.round(100 * share)}`);
  return make("p", { class: "small steady" }, `How firm is this? If every weight may be half or twice as large, ${words.join(", ")} of 100 cases${alike(entries).length > 1 ? "; among equals the name decides" : ""}.`);
}

/** Warnings about the first choice that the user did not ask for. */
function caution(entry) {
  const warnings = weakSensitivities(entry, wishes);
  if (!warnings.length) return null;
  return make("div", { class: "note honest" }, make("p", null, make("b", null, "Take care:")),
    make("ul", { class: "plain" }, warnings.map(([name, words]) => make("li", null, make("b", null, `${data.briefly[name]}: `), `${words}.`))),
    make("p", null, "A map that does not depend on the picture, the class or the model can look good and still explain nothing."));
}

function list(entries, placed) {
  return make(placed ? "ol" : "ul", { class: "entries" }, entries.map((entry) => entryOf(entry, placed)));
}

function folded(words, entries) {
  return entries.length ? [make("details", null, make("summary", null, words), list(entries, false))] : [];
}

function answer() {
  const ranking = find("#ranking"), asked = Object.keys(wishes.levels).length || wishes.cost !== null || wishes.blackBox;
  for (const button of all("[data-profile]")) {
    const name = button.dataset.profile, chosen = name ? same(data.profiles[name], wishes.levels) : !asked;
    button.setAttribute("aria-pressed", chosen);
  }
  ranking.replaceChildren();
  document.documentElement.classList.toggle("asked", Boolean(asked));
  find("#chosen").replaceChildren(...chosen());
  find("#unasked").hidden = Boolean(asked);
  if (!asked) {
    say("Nothing is chosen yet.");
    return;
  }
  const entries = rank(data.methods, wishes), of = (state) => entries.filter((entry) => entry.state === state);
  const [met, unknown, missed] = STATES.map(of);
  if (met.length) {
    const level = alike(met).map((entry) => entry.method.title);
    const lead = level.length === 1 ? `${level[0]} comes first.`
      : level.length === data.methods.length ? `All ${level.length} methods are level: nothing that is known of them here tells them apart.`
      : `${level.slice(0, -1).join(", ")} and ${level.at(-1)} are level, in the order of their names.`;
    const needs = met[0].needs.length ? `${met.length} of ${plural(data.methods.length, "method")} ${met.length === 1 ? "meets" : "meet"} your needs.` : "Nothing is essential, so no method is left out.";
    say(`${lead} ${needs}`);
    ranking.append(...[steady(met), caution(met[0]), list(met, true)].filter(Boolean),
      ...folded(`${unknown.length} more, of which something you need is not known`, unknown),
      ...folded(`${plural(missed.length, "method")} that ${missed.length === 1 ? "misses" : "miss"} a need`, missed));
    return;
  }
  const close = nearest(entries), rest = entries.filter((entry) => !close.includes(entry));
  const open = [...new Set(unknown.flatMap((entry) => entry.needs.filter((need) => need.state === "not known").map((need) => need.name)))];
  const named = open.map((name) => data.briefly[name] || "what a map takes").join("; ");
  say(unknown.length ? `No method is shown to meet your needs on this data. Not known of ${unknown.length} that may: ${named}.` : "No method meets your needs on this data.");
  const why = !unknown.length ? "That is an answer too: ask for less, or do not rely on a map here."
    : data.enough ? "What is not known was not measured in this run; more tests would tell." : `With at least ${data.minimum} images the tests behind your needs could be counted.`;
  ranking.append(...[unknown.length ? caution(unknown[0]) : null, make("p", { class: "note honest" }, `${why} These come closest:`), list(close, false)].filter(Boolean),
    ...folded(`the ${plural(rest.length, "other method")}`, rest));
}

/** What was asked for, in words: on paper the form gives way to it. */
function chosen() {
  const levels = ["essential", "nice", "unwanted"].map((level) => [data.levels[level], Object.keys(data.wishes)
    .filter((name) => wishes.levels[name] === level).map((name) => lower(data.wishes[name]))]);
  const conditions = [wishes.cost === null ? [] : `a map may take at most ${span(wishes.cost)}`, wishes.blackBox ? "only the outputs of the model are available" : []].flat();
  return [...levels, ["condition", conditions]].filter(([, those]) => those.length)
    .map(([word, those]) => make("li", null, make("b", null, `${word}: `), those.join("; ")));
}

let waiting = 0;

/** Says it at once to the eye, and a little later, once, to a screen reader. */
function say(words) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (find("#news").textContent !== words) find("#news").textContent = words; }, 150);
}

form.addEventListener("input", () => { readForm(); answer(); keepAddress(placeNow()); });
form.addEventListener("submit", (event) => event.preventDefault());
for (const button of all("[data-profile]"))
  button.addEventListener("click", () => {
    wishes.levels = button.dataset.profile ? { ...data.profiles[button.dataset.profile] } : {};
    if (!button.dataset.profile) { wishes.cost = null; wishes.blackBox = false; }
    fillForm();
    answer();
    keepAddress(placeNow());
  });

const placeNow = () => addressParts()[0] || "priorities";

// Side by side --------------------------------------------------------------------------------------------------------

function compare() {
  const some = picked.length >= 2;
  for (const box of all("[data-pick]")) {
    box.checked = picked.includes(box.dataset.pick);
    box.disabled = !box.checked && picked.length >= MOST;
  }
  for (const cell of all("[data-column]")) cell.hidden = some && !picked.includes(cell.dataset.column);
  find("table.side").classList.toggle("close", some);
  find("table.side").classList.toggle("many", picked.length > 2);
  const titles = picked.map((id) => data.methods.find((method) => method.id === id).title);
  find("#picked").textContent = some ? `${difference()}` : picked.length ? `${titles[0]} is ticked; tick one to three more.` : `All ${data.methods.length} methods are shown; tick two to four to see only those.`;
  find("#clear").hidden = !picked.length;
}

/** Where the chosen methods differ most, in words. */
function difference() {
  const chosen = picked.map((id) => data.methods.find((method) => method.id === id));
  const gaps = Object.keys(data.titles).map((name) => {
    const graded = chosen.filter((method) => method.grades[name] !== null).sort((first, second) => second.grades[name] - first.grades[name]);
    return { name, graded, gap: graded.length > 1 ? graded[0].grades[name] - graded.at(-1).grades[name] : 0 };
  }).filter((difference) => difference.gap >= 0.15).sort((first, second) => second.gap - first.gap).slice(0, 3);
  if (!gaps.length) return "The chosen methods hardly differ in what is known of them.";
  return "They differ most in " + gaps.map(({ name, graded }) => `${lower(data.titles[name])} (${graded[0].title} ${two(graded[0].grades[name])}, ${graded.at(-1).title} ${two(graded.at(-1).grades[name])})`).join("; ") + ".";
}

for (const box of all("[data-pick]"))
  box.addEventListener("change", () => {
    const id = box.dataset.pick;
    picked = box.checked ? [...picked, id].slice(0, MOST) : picked.filter((other) => other !== id);
    compare();
    keepAddress(addressParts()[0]);
  });
find("#clear").addEventListener("click", () => { picked = []; compare(); keepAddress("comparison"); find("#comparison-title").focus(); });
for (const button of all("button.fold"))
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", open);
    button.closest("tbody").classList.toggle("open", open);
  });

// ---------------------------------------------------------------------------------------------------------------------

window.addEventListener("hashchange", () => follow(true));
follow(Boolean(location.hash));
fillForm();
answer();
compare();
