/** fast-check with the same seed in each run, unless TEST_FIRST_SEED sets a different one. */
import fc from "fast-check";
import { firstSeed } from "./seeds.ts";

fc.configureGlobal({ seed: firstSeed });

export default fc;
