import { readFile } from "node:fs/promises";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import type { Clock } from "../../base/clock.ts";
import { errorText } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";

/** PEM files: a certificate with its chain, and its private key. */
export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

type Pem = Required<Pick<SecureContextOptions, "cert" | "key">>;

/**
 * How often the files are read. This is often enough, because certificates are usually renewed hours before they
 * expire.
 */
const checkPeriodMs = 60_000;

/** Reads a server's certificate and key. Rejects if a file cannot be read, or if they do not match. */
export async function readCertificate({ certFile, keyFile }: CertificateFiles): Promise<Pem> {
  const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)]);
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    const message = `Cannot use certificate ${certFile} with private key ${keyFile}: ${errorText(error)}`;
    throw new Error(message, { cause: error });
  }
  return { cert, key };
}

/**
 * Reads the files every minute and passes changed contents to `use`. If a new certificate or key is unusable, logs an
 * error, and the server keeps using the previous pair. Returns a function that stops the reads.
 */
export function followCertificate(
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
  files: CertificateFiles,
  { current, use }: { readonly current: Pem; readonly use: (renewed: Pem) => void },
): () => void {
  let known = current;
  let lastProblem = "";
  let isEnded = false;
  let cancel = (): void => {};
  const check = async (): Promise<void> => {
    try {
      const found = await readCertificate(files);
      if (String(found.cert) !== String(known.cert) || String(found.key) !== String(known.key)) {
        use(found);
        known = found;
        log.info("Certificate renewed", { file: files.certFile });
      }
      lastProblem = "";
    } catch (error) {
      const problem = errorText(error);
      if (problem !== lastProblem) log.error("Cannot renew certificate", { err: problem });
      lastProblem = problem;
    }
  };
  const wait = (): void => {
    cancel = clock.after(checkPeriodMs, () => void check().then(() => isEnded || wait()));
  };
  wait();
  return () => {
    isEnded = true;
    cancel();
  };
}
