/** Runs axe-core in a page: all rules, and of WCAG 2.2 also the size of targets, which is off by default. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns the violations that axe-core reports, a line each. */
export async function violations(page) {
    if (await page.evaluate(() => !("axe" in window))) {
        // The page's policy lets no script in; the debugger's does not ask it.
        const session = await page.context().newCDPSession(page);
        await session.send("Runtime.evaluate", { expression: source });
        await session.detach();
    }
    // Of rules that hold it describes one place, not all.
    const { violations: found } = await page.evaluate(() =>
        window.axe.run({ rules: { "target-size": { enabled: true } }, resultTypes: ["violations"] }),
    );
    return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`);
}
