/** axe-core finds nothing to object to, in light and dark, wide and narrow, and with everything open. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { settle, startBrowser } from "./browser.mjs";
import { makeSyntheticPage } from "./synthetic.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let started;
before(async () => {
    started = await startBrowser();
});
after(() => started.close());

async function violations(page) {
    // The page's policy lets no script in; the debugger's does not ask it.
    const session = await page.context().newCDPSession(page);
    await session.send("Runtime.evaluate", { expression: axe });
    const { violations: found } = await page.evaluate(() => window.axe.run());
    return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`);
}

for (const [name, words] of [
    ["one", ["small", "kernels"]],
    ["two", ["small", "diff"]],
    ["oom", ["small", "oom"]],
    ["empty", ["empty"]],
])
    for (const scheme of ["light", "dark"])
        test(`${name}, ${scheme}`, async () => {
            const url = started.write(name, makeSyntheticPage(1000, words));
            for (const width of [1440, 900]) {
                const page = await started.open(url, { scheme, width });
                await page.fill("#search", "ffn");
                await page
                    .locator("#live button")
                    .first()
                    .click({ timeout: 500 })
                    .catch(() => {});
                await page.click("#copy");
                await settle(page);
                assert.deepEqual(await violations(page), []);
                await page.click("#help");
                assert.deepEqual(await violations(page), []);
                await page.context().close();
            }
        });
