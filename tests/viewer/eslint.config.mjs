/** The rules of ESLint for the page's program and its tests. Types are tsc's business (tsconfig.json). */
import globals from "globals";

const RULES = {
    eqeqeq: "error",
    "no-console": "off",
    "no-else-return": "error",
    "no-implicit-globals": "error",
    "no-redeclare": "error",
    "no-self-compare": "error",
    "no-shadow": "off",
    "no-undef": "error",
    "no-unreachable": "error",
    "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
    "no-useless-rename": "error",
    "no-var": "error",
    "object-shorthand": "error",
    "prefer-const": ["error", { destructuring: "all" }],
    "prefer-template": "error",
};

/** A module has no state of its own: what changes is in the scene. */
const NO_STATE = {
    selector: ":matches(Program, ExportNamedDeclaration) > VariableDeclaration[kind='let']",
    message: "A module has no variables, only constants.",
};

export default [
    {
        files: ["**/*.js"],
        languageOptions: { globals: globals.browser },
        rules: { ...RULES, "no-restricted-syntax": ["error", NO_STATE] },
    },
    { files: ["**/*.mjs"], languageOptions: { globals: { ...globals.node, ...globals.browser } }, rules: RULES },
];
