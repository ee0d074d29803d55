// Looks at a page as it is laid out, and leaves what it found in the title of the window around it. Added to a copy of the
// page, whose policy lets no script in.
"use strict";

// Light that a colour gives, from 0 to 1 (WCAG 2.2, relative luminance).
function luminance([red, green, blue]) {
  const part = (value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
}

const numbers = (color) => color.match(/[\d.]+/g).map(Number);

// The colour behind an element: that of the nearest one that has any.
function behind(element) {
  for (let at = element; at; at = at.parentElement) {
    const color = numbers(getComputedStyle(at).backgroundColor);
    if (color.length < 4 || color[3] === 1) return color;
  }
  return [255, 255, 255];
}

function contrast(element) {
  const [one, two] = [numbers(getComputedStyle(element).color), behind(element)].map(luminance);
  return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
}

const shown = (element) => {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.height > 0;
};
const name = (element) => `${element.localName}.${element.getAttribute("class") ?? ""}: ${element.textContent.slice(0, 40)}`;

document.querySelectorAll("details").forEach((details) => (details.open = true));
const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
const worded = [...document.body.querySelectorAll("*")].filter((element) => own(element) && !element.closest("svg, script"));
top.document.title = JSON.stringify({
  width: innerWidth,
  overflow: document.documentElement.scrollWidth - innerWidth,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  hidden: [...document.querySelectorAll("h1, h2, h3, table, tr, th, li, dd, svg")].filter((e) => !shown(e)).map(name),
  faint: worded.filter((element) => contrast(element) < 4.5).map(name),
  unnamed: [...document.querySelectorAll("svg")].filter((svg) => !svg.querySelector("title")?.textContent).length,
  unscoped: [...document.querySelectorAll("th:not([scope])")].length,
  drawings: document.querySelectorAll("svg").length,
  page: getComputedStyle(document.body).backgroundColor,
});
