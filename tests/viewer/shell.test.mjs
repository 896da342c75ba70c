/** The shell that tools/page.cmake makes: its policy allows these scripts only, and modules can be inlined as text. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { makeShell } from "./encode.mjs";

const VIEWER = fileURLToPath(new URL("../../viewer/", import.meta.url));
const hashOf = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

test("the policy allows the page's two scripts and its style and nothing else", () => {
    const shell = makeShell();
    const [, policy] = /Content-Security-Policy" content="([^"]*)"/.exec(shell);
    const [start, script] = [...shell.matchAll(/<script>([^]*?)<\/script>/g)].map(([, text]) => text);
    const style = /<style>([^]*?)<\/style>/.exec(shell)[1];
    assert.equal(
        policy,
        `default-src 'none'; script-src ${hashOf(start)} ${hashOf(script)}; style-src ${hashOf(style)}; worker-src blob:; ` +
            "base-uri 'none'; form-action 'none'",
    );
    assert.equal(shell.split("<!-- chunks -->").length, 2);
    assert.equal(shell.match(/<script/g).length, 3);
    assert.doesNotMatch(shell, /https?:\/\/|\son\w+=|\sstyle="/);
});

test("modules obey the rules of inlining, and each is used", () => {
    const owners = new Map();
    const imported = new Set(["start.js", "main.js", "worker.js"]);
    for (const file of readdirSync(VIEWER).filter((name) => name.endsWith(".js"))) {
        const text = readFileSync(VIEWER + file, "utf8");
        for (const [, name] of text.matchAll(/^(?:export )?(?:async )?(?:function|class|const|let) (\w+)/gm)) {
            assert.ok(!owners.has(name), `${name} is in ${owners.get(name)} and in ${file}`);
            owners.set(name, file);
        }
        for (const [line] of text.matchAll(/^[ \t]*import\b.*$/gm)) {
            assert.match(line, /^import \{ [\w, ]+ \} from "\.\/[a-z_]+\.js";$/, file);
            imported.add(/\/([a-z_]+\.js)/.exec(line)[1]);
        }
        for (const [line] of text.matchAll(/^[ \t]*export\b.*$/gm))
            assert.match(line, /^export (async )?(function|class|const|let) /, file);
    }
    for (const file of owners.values()) assert.ok(imported.has(file), `${file} is imported by none`);
});
