/**
 * Scenarios that do not match yet, in one place. They run all the same: one that matches is reported and
 * leaves this list. Each waits for what its reason names.
 */
export const pendingScenarios: Readonly<Record<string, string>> = {};
