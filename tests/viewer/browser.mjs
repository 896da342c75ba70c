/** Chromium for tests: Debian's, or the one in CHROMIUM; and functions to open pages in it. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { writePage } from "./encode.mjs";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/** Starts a browser, makes a folder for pages, and returns functions to open them. close() ends both. */
export async function startBrowser() {
    const browser = await chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
    const folder = mkdtempSync(join(tmpdir(), "memtrace-viewer-"));
    return {
        browser,
        folder,
        /** Writes a page's data (encode.mjs) to a file, and returns its URL. */
        write(name, data) {
            const path = join(folder, `${name}.html`);
            writePage(path, data);
            return pathToFileURL(path).href;
        },
        open: (url, options) => openPage(browser, url, options),
        async close() {
            await browser.close();
            rmSync(folder, { recursive: true });
        },
    };
}

/**
 * Opens a page and waits until it shows its data, or an error. `problems` collects console errors, exceptions, and
 * requests other than the page's own. There must be none.
 */
export async function openPage(browser, url, { width = 1440, height = 900, scheme = "light", hash = "" } = {}) {
    const context = await browser.newContext({
        viewport: { width, height },
        colorScheme: scheme,
        permissions: ["clipboard-read", "clipboard-write"],
    });
    const page = await context.newPage();
    page.problems = [];
    page.on("console", (message) => {
        if (["error", "warning"].includes(message.type())) page.problems.push(message.text());
    });
    page.on("pageerror", (error) => page.problems.push(String(error)));
    page.on("request", (request) => {
        if (request.url().split("#")[0] !== url && !request.url().startsWith("blob:"))
            page.problems.push(`request ${request.url()}`);
    });
    await page.goto(url + hash);
    await page.waitForSelector('#page[data-state="ready"], #page[data-state="failed"]', { timeout: 60000 });
    if ((await page.getAttribute("#page", "data-state")) === "ready")
        await page.waitForSelector('#page[data-complete="true"]');
    return page;
}

/**
 * A browser as people use it, without a debugger, which slows the loading of large pages. `look` opens a page in a
 * window of its own, and returns its data attributes after `waitMs`.
 */
export async function startUnwatchedBrowser({ width = 1440, height = 900 } = {}) {
    const folder = mkdtempSync(join(tmpdir(), "memtrace-viewer-"));
    const process = spawn(
        CHROMIUM,
        [
            ...ARGUMENTS,
            "--headless",
            "--remote-debugging-port=0",
            `--user-data-dir=${folder}`,
            `--window-size=${width},${height}`,
            "about:blank",
        ],
        { stdio: ["ignore", "ignore", "pipe"] },
    );
    const ended = new Promise((resolve) => process.once("exit", resolve));
    const host = await new Promise((resolve, reject) => {
        createInterface({ input: process.stderr }).on("line", (line) => {
            const found = /^DevTools listening on ws:\/\/([^/]+)/.exec(line);
            if (found) resolve(found[1]);
        });
        ended.then(() => reject(new Error(`${CHROMIUM} ended before it listened`)));
    });
    return {
        async look(url, waitMs) {
            await fetch(`http://${host}/json/new?${url}`, { method: "PUT" });
            await sleep(waitMs);
            const browser = await chromium.connectOverCDP(`http://${host}`);
            const page = browser
                .contexts()[0]
                .pages()
                .find((each) => each.url().split("#")[0] === url);
            await page.waitForSelector('#page[data-complete="true"]', { timeout: 60000 });
            const state = await stateOf(page);
            await page.close();
            await browser.close();
            return state;
        },
        async close() {
            process.kill();
            await ended;
            rmSync(folder, { recursive: true });
        },
    };
}

/** Returns the data attributes of #page. */
export function stateOf(page) {
    return page.evaluate(() => ({ ...document.getElementById("page").dataset }));
}

/** Waits until the page has drawn another frame. */
export async function settle(page) {
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
}
