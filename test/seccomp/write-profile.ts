/** Writes the profile for the recorded calls: `make seccomp`. */
import { writeFileSync } from "node:fs";
import { profilePath, profileText, readRecordedCalls } from "./profile.ts";

writeFileSync(profilePath, profileText(readRecordedCalls()));
