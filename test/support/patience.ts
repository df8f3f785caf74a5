/**
 * How long tests wait for a condition. This limit only detects hangs: while other suites run on the same processor,
 * starting a program in the lab may take 20 s.
 */
export const patienceMs = 180_000;
