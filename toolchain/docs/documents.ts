/** The documents that are generated: `make docs` writes them, a test compares them with what is there. */
import { compatibilityDocument } from "./compatibility.ts";
import { configurationDocument } from "./configuration.ts";
import { manualPage } from "./man.ts";
import { metricsDocument } from "./metrics.ts";
import { sysctlsDocument } from "./sysctls.ts";

/** Text by path from the project's root. */
export const documents: Readonly<Record<string, () => string>> = {
  "docs/configuration.md": configurationDocument,
  "docs/compatibility.md": compatibilityDocument,
  "docs/metrics.md": metricsDocument,
  "docs/sysctls.md": sysctlsDocument,
  "docs/man/kube-ipvs.1": manualPage,
};
