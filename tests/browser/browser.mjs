// Starts Chromium with a page, which is a file, and notes what the page complains of and asks for.
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const flags = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

export const open = async (file, options = {}) => {
  const context = await chromium.launchPersistentContext(mkdtempSync(join(tmpdir(), "page-")), {
    executablePath: process.env.DRAFTWORTH_CHROMIUM, args: flags, headless: true, ...options,
  });
  const page = await context.newPage();
  const complaints = [];
  const requests = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => /^(data|file):/.test(request.url()) || requests.push(request.url()));
  await page.goto(pathToFileURL(resolve(file)).href);
  return { page, complaints, requests, close: () => context.close() };
};
