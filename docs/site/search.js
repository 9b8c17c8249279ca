"use strict";
// Search over the headings of all pages. The index is fetched with the first letter, by a script, so that it also works from a disk.
const field = document.getElementById("Search");
const found = document.getElementById("Found");
const up = field.dataset.up;
let asked = false;

const words = (text) => text.toLowerCase().split(/[^\p{L}\p{N}_-]+/u).filter((word) => word.length > 0);

// Each word must be there. A heading counts more than its text, the beginning of a word more than its middle.
function score([page, heading, , text], wanted) {
  let sum = 0;
  for (const word of wanted) {
    const at = (where, worth) => {
      const place = where.toLowerCase().indexOf(word);
      if (place < 0) return 0;
      return place === 0 || !/[\p{L}\p{N}]/u.test(where[place - 1]) ? worth : worth / 2;
    };
    const points = at(heading, 10) + at(page, 6) + at(text, 2);
    if (points === 0) return 0;
    sum += points;
  }
  return sum;
}

function excerpt(text, word) {
  const place = Math.max(0, text.toLowerCase().indexOf(word) - 40);
  return (place > 0 ? "… " : "") + text.slice(place, place + 160) + (place + 160 < text.length ? " …" : "");
}

function show() {
  const wanted = words(field.value);
  found.replaceChildren();
  found.hidden = wanted.length === 0;
  if (found.hidden || typeof INDEX === "undefined") return;
  const best = INDEX.map((entry) => [score(entry, wanted), entry]).filter(([points]) => points > 0);
  best.sort((a, b) => b[0] - a[0]);
  for (const [, [page, heading, place, text]] of best.slice(0, 20)) {
    const link = document.createElement("a");
    link.href = up + place;
    link.textContent = heading === page ? page : `${page}: ${heading}`;
    const line = document.createElement("p");
    line.textContent = excerpt(text, wanted[0]);
    const item = document.createElement("li");
    item.append(link, line);
    found.append(item);
  }
  if (best.length === 0) {
    const item = document.createElement("li");
    item.textContent = `No page has ${wanted.join(" and ")}.`;
    found.append(item);
  }
}

field.addEventListener("input", () => {
  if (!asked) {
    asked = true;
    const script = document.createElement("script");
    script.src = up + "index.js";
    script.onload = show;
    document.body.append(script);
  }
  show();
});
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape") {
    field.value = "";
    show();
  }
});
// On a narrow screen the list of pages is closed until it is asked for.
if (matchMedia("(max-width: 60rem)").matches) document.querySelector("nav details").open = false;
