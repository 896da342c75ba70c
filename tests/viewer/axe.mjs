/** Runs axe-core in a page: all rules, and of WCAG 2.2 also the size of targets, which is off by default. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns the violations that axe-core reports, a line each. */
export async function violations(page) {
    // The page's policy lets no script in; the debugger's does not ask it.
    const session = await page.context().newCDPSession(page);
    await session.send("Runtime.evaluate", { expression: axe });
    const { violations: found } = await page.evaluate(() =>
        window.axe.run({ rules: { "target-size": { enabled: true } } }),
    );
    return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" | ")}`);
}
