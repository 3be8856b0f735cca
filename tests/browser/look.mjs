// Opens a page in Chromium and prints what a test asks about, as JSON: `node look.mjs FILE`.
import { createRequire } from "node:module";
import { open } from "./browser.mjs";

const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const { page, complaints, requests, close } = await open(process.argv[2], { bypassCSP: true });

const look = async (width, height, colorScheme) => {
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme });
  return page.evaluate(() => {
    const top = (selector) => document.querySelector(selector)?.getBoundingClientRect().top ?? null;
    const within = (element) => {
      const { top, bottom } = element.getBoundingClientRect();
      return element.checkVisibility() && top >= 0 && bottom <= innerHeight;
    };
    return {
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      heading: top("h1"), cards: top(".cards"), plot: top("figure"), about: top("#about"),
      height: innerHeight,
      byPrompt: top(".with-examples > figure:first-child"), example: top(".with-examples > .example"),
      brokenIntervals: [...document.querySelectorAll(".interval")].filter((element) =>
        element.checkVisibility() && element.offsetHeight > 30).length,
      intervals: document.querySelectorAll(".interval").length, cutCaptions: [...document.querySelectorAll("caption")].filter((element) =>
        element.offsetWidth > element.closest(".scroll").clientWidth).length,
      first: [...document.querySelectorAll("h1, .setting, .card")].filter(within)
        .map((element) => element.innerText).join("\n"),
    };
  });
};

const serious = async () => {
  await page.addScriptTag({ path: axe });
  const { violations } = await page.evaluate(() => window.axe.run());
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
};

const reached = async () => {
  const wanted = await page.evaluate(() => {
    const all = [...document.querySelectorAll("a[href], summary, input, select, [tabindex='0']")];
    all.forEach((element, number) => { element.dataset.number = number; });
    return all.filter((element) => element.checkVisibility()).map((e) => e.dataset.number);
  });
  const found = new Set();
  for (let press = 0; press < wanted.length + 5; press += 1) {
    await page.keyboard.press("Tab");
    found.add(await page.evaluate(() => document.activeElement?.dataset?.number));
  }
  return { wanted: wanted.length, missed: wanted.filter((number) => !found.has(number)).length };
};

const wide = await look(1280, 800, "light");
const narrow = await look(400, 800, "light");
await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
await look(1280, 800, "light");
const table = await page.evaluate(() => document.querySelector("table")?.offsetWidth ?? 0);
const opened = await look(400, 800, "light");
const light = await serious();
await look(1280, 800, "dark");
const dark = await serious();
const keyboard = await reached();
console.log(JSON.stringify({
  wide, narrow, opened, table, light, dark, keyboard, complaints, requests,
  text: await page.evaluate(() => document.body.innerText),
}));
await close();
