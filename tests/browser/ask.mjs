// Sets the controls of a page to ask, once for each line of standard input, a JSON object of values
// by the controls' ids; prints what the page then says, as JSON: `node ask.mjs FILE`.
// The page's own Content-Security-Policy holds here.
import { readFileSync } from "node:fs";
import { open } from "./browser.mjs";

const { page, complaints, requests, close } = await open(process.argv[2]);
const choices = readFileSync(0, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const answers = await page.evaluate((all) => all.map((choice) => {
  for (const [id, value] of Object.entries(choice)) {
    const control = document.getElementById(id);
    if (control.tagName === "SELECT") control.selectedIndex = value;
    else control.value = value;
    control.dispatchEvent(new Event("input"));
  }
  const text = (id) => {
    const element = document.getElementById(id);
    return element.checkVisibility() ? element.innerText : "";
  };
  return {
    problem: text("problem"), outside: text("outside"),
    cards: [...document.querySelectorAll(".card")].map((card) => ({
      judgement: card.querySelector(".judgement").textContent,
      reason: card.querySelector(".reason").textContent,
      figures: Object.fromEntries([...card.querySelectorAll("data")].map((figure) => [
        figure.className, figure.value === "" ? null : Number(figure.value),
      ])),
    })),
  };
}), choices);
const disagreement = await page.evaluate(() => document.getElementById("disagreement").textContent);
console.log(JSON.stringify({ answers, disagreement, complaints, requests }));
await close();
