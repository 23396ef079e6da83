"use strict";
const chart = document.getElementById("chart");
const zoom = document.getElementById("zoom");
const find = document.getElementById("find");
const hint = document.getElementById("hint");
const seconds = Number(chart.dataset.seconds);
const rows = [...document.querySelectorAll("section > .row")];
const style = document.documentElement.style;
const MOST = 200;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];
let times = 1;

/* Zoom: what is under `x` (pixels from the left of the chart) stays there. */
function zoomTo(wanted, x) {
  const box = chart.querySelector(".axis .lane");
  const edge = document.querySelector(".axis .label").offsetWidth;
  const place = (chart.scrollLeft + x - edge) / box.offsetWidth;
  times = Math.min(Math.max(wanted, 1), MOST);
  style.setProperty("--zoom", times);
  zoom.value = 100 * Math.log(times) / Math.log(MOST);
  chart.scrollLeft = place * box.offsetWidth + edge - x;
  drawTicks();
}

function drawTicks() {
  const wanted = seconds / times / 8;
  const step = STEPS.find((one) => one >= wanted) || Math.ceil(wanted / 86400) * 86400;
  const edge = document.querySelector(".axis .label").offsetWidth;
  const width = chart.querySelector(".axis .lane").offsetWidth;
  const first = Math.max(0, Math.floor((chart.scrollLeft / width) * seconds / step));
  const last = Math.min(seconds, ((chart.scrollLeft + chart.clientWidth) / width) * seconds);
  const ticks = document.getElementById("ticks");
  const grid = document.getElementById("grid");
  ticks.replaceChildren();
  grid.replaceChildren();
  for (let tick = first; tick * step <= last; tick += 1) {
    const at = `${100 * tick * step / seconds}%`;
    const label = document.createElement("span");
    label.textContent = told(tick * step);
    label.style.left = at;
    ticks.append(label);
    const line = document.createElement("i");
    line.style.left = at;
    grid.append(line);
  }
}

function told(value) {
  const hours = Math.floor(value / 3600), minutes = Math.floor(value / 60) % 60, rest = Math.round(value % 60);
  const parts = [hours && `${hours} h`, minutes && `${minutes} min`, (rest || !value) && `${rest} s`];
  return parts.filter(Boolean).slice(0, 2).join(" ");
}

/* Where keys zoom: at the block that is shown, else in the middle. */
function focus() {
  if (!shown) return chart.clientWidth / 2;
  const box = shown.getBoundingClientRect();
  return (box.left + box.right) / 2 - chart.getBoundingClientRect().left;
}

/* What a block is, at once and for the keyboard too; the title is what stays without this script. */
let shown = null;
function show(block) {
  if (shown) shown.classList.remove("shown");
  shown = block;
  hint.hidden = !block;
  if (!block) return;
  block.classList.add("shown");
  const label = block.closest(".row").querySelector(".label");
  hint.textContent = `${label.dataset.hint.split(": ")[0]} · ${block.dataset.hint}`;
  const box = block.getBoundingClientRect();
  hint.style.left = `${Math.max(8, Math.min(box.left, innerWidth - hint.offsetWidth - 8))}px`;
  hint.style.top = `${box.bottom + hint.offsetHeight + 8 > innerHeight ? box.top - hint.offsetHeight - 6 : box.bottom + 6}px`;
}
for (const one of document.querySelectorAll("section .lane > i[title], section .row > .label")) {
  one.dataset.hint = one.title;
  if (one.tagName === "I") one.removeAttribute("title");
}
chart.addEventListener("mouseover", (event) => {
  const block = event.target.closest(".lane > i[data-hint]");
  if (block || shown) show(block);
});
chart.addEventListener("mouseleave", () => show(null));

/* Find: rows by their name, blocks by what they are. */
function search() {
  const wanted = find.value.trim().toLowerCase();
  let count = 0;
  for (const row of rows) {
    const named = row.querySelector(".label").dataset.hint.toLowerCase().includes(wanted);
    let any = false;
    for (const block of row.querySelectorAll(".lane > i[data-hint]")) {
      const fits = block.dataset.hint.toLowerCase().includes(wanted);
      block.classList.toggle("other", wanted !== "" && !named && !fits);
      any = any || fits;
    }
    row.hidden = !(named || any);
    count += row.hidden ? 0 : 1;
  }
  for (const section of document.querySelectorAll("section")) section.hidden = !section.querySelector(".row:not([hidden])");
  document.getElementById("found").textContent = wanted ? `${count} of ${rows.length} rows` : "";
  show(null);
}

/* Keys: from row to row, from block to block. */
let current = null;
function go(row, block) {
  if (!row) return;
  if (current) current.classList.remove("current");
  current = row;
  row.classList.add("current");
  row.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (block) {
    const edge = row.querySelector(".label").offsetWidth, right = chart.clientWidth - row.querySelector(".numbers").offsetWidth;
    const x = block.offsetLeft + edge - chart.scrollLeft;
    if (x < edge || x > right) chart.scrollLeft += x - (edge + right) / 2;
  }
  show(block || null);
}
function step(by) {
  const seen = rows.filter((row) => !row.hidden);
  go(seen[Math.min(Math.max(seen.indexOf(current) + by, 0), seen.length - 1)], null);
}
function along(by) {
  const row = current || rows.find((one) => !one.hidden);
  if (!row) return;
  const blocks = [...row.querySelectorAll(".lane > i[data-hint]")].filter((one) => one.offsetParent && !one.classList.contains("other"));
  blocks.sort((one, other) => one.offsetLeft - other.offsetLeft);
  const at = blocks.indexOf(shown);
  go(row, blocks[at < 0 ? (by > 0 ? 0 : blocks.length - 1) : Math.min(Math.max(at + by, 0), blocks.length - 1)]);
}
const KEYS = {
  "+": () => zoomTo(times * 1.5, focus()), "=": () => zoomTo(times * 1.5, focus()),
  "-": () => zoomTo(times / 1.5, focus()), "0": () => zoomTo(1, 0),
  ArrowDown: () => step(1), ArrowUp: () => step(-1), ArrowRight: () => along(1), ArrowLeft: () => along(-1),
  "/": () => find.focus(), Escape: () => { find.value = ""; search(); chart.focus(); },
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.target.tagName === "INPUT" && event.key !== "Escape")) return;
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});

zoom.addEventListener("input", () => zoomTo(MOST ** (zoom.value / 100), chart.clientWidth / 2));
find.addEventListener("input", search);
chart.addEventListener("wheel", (event) => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoomTo(times * Math.exp(-event.deltaY / 200), event.clientX - chart.getBoundingClientRect().left);
}, { passive: false });
chart.addEventListener("scroll", () => { show(shown); requestAnimationFrame(drawTicks); });
addEventListener("resize", drawTicks);
for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", on);
    chart.classList.toggle(`no-${button.dataset.kind}`, !on);
  });
}
drawTicks();
