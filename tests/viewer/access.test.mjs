/** axe-core reports no violations: in light and dark, wide and narrow, and with everything open. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { violations } from "./axe.mjs";
import { settle, startBrowser } from "./browser.mjs";
import { makeSyntheticPage } from "./synthetic.mjs";

let started;
before(async () => {
    started = await startBrowser();
});
after(() => started.close());

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
                await page.click("#menu-button");
                await settle(page);
                assert.deepEqual(await violations(page), []);
                await page.click("#copy");
                await settle(page);
                assert.deepEqual(await violations(page), []);
                await page.fill("#search", "");
                await page.selectOption("#color-key", "category");
                await settle(page);
                const entry = page.locator("#legend button").first(); // with it all others are off
                if ((await entry.count()) > 0) await entry.click();
                await settle(page);
                assert.deepEqual(await violations(page), []);
                if (name === "one") {
                    await page.click("#help"); // the same for every run
                    assert.deepEqual(await violations(page), []);
                }
                await page.context().close();
            }
        });
