/** A cluster's certificates and kubeconfig files, created for each run. */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  apiServer,
  firstServiceAddress,
  gateway,
  type NodeAddresses,
  otherApiServerAddress,
  otherNodeAddress,
} from "./network.ts";

const days = "30";
const keyType = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

interface Certificate {
  readonly name: string;
  readonly subject: string;
  /** Names and addresses for which the certificate is valid, in the format of subjectAltName. */
  readonly hosts?: string;
}

const apiServerHosts = [
  ...["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map((name) => `DNS:${name}`),
  ...[firstServiceAddress, gateway, otherApiServerAddress, "127.0.0.1"].map(
    (address) => `IP:${address}`,
  ),
].join(",");

const certificates: readonly Certificate[] = [
  { name: "apiserver", subject: "/CN=kube-apiserver", hosts: apiServerHosts },
  { name: "admin", subject: "/O=system:masters/CN=kubernetes-admin" },
  { name: "controller-manager", subject: "/CN=system:kube-controller-manager" },
  { name: "scheduler", subject: "/CN=system:kube-scheduler" },
  { name: "kube-proxy", subject: "/CN=system:kube-proxy" },
  { name: "front-proxy", subject: "/CN=front-proxy" },
];

function nodeCertificate({ name, address, address6 }: NodeAddresses): Certificate {
  return {
    name,
    subject: `/O=system:nodes/CN=system:node:${name}`,
    hosts: `DNS:${name},IP:${address},IP:${address6},IP:${otherNodeAddress}`,
  };
}

/**
 * Writes NAME.crt, NAME.key and NAME.conf, ca.crt and ca.key, and service-accounts.key and .pub. `servers` contains
 * other API server URLs by NAME.
 */
export function writeCredentials(
  folder: string,
  nodes: readonly NodeAddresses[],
  servers: Readonly<Record<string, string>> = {},
): void {
  mkdirSync(folder, { recursive: true });
  const authority = ["-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"];
  openssl(
    folder,
    ...["req", "-x509", ...keyType, "-keyout", "ca.key", "-out", "ca.crt", "-days", days],
    ...["-subj", "/CN=kubernetes-ca", ...authority],
  );
  for (const certificate of [...certificates, ...nodes.map(nodeCertificate)]) {
    issue(folder, certificate);
    const { name } = certificate;
    writeFileSync(
      join(folder, `${name}.conf`),
      JSON.stringify(kubeconfig(folder, name, servers[name])),
    );
  }
  writeAccountKeys(folder);
}

/** Replaces the API server's certificate and key with new ones from the same authority. */
export function renewApiServerCertificate(folder: string): void {
  for (const certificate of certificates.filter(({ name }) => name === "apiserver"))
    issue(folder, certificate);
}

/** Writes the keys that sign and verify service account tokens, replacing earlier keys. */
export function writeAccountKeys(folder: string): void {
  const key = "service-accounts.key";
  openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key);
  openssl(folder, "ec", "-in", key, "-pubout", "-out", "service-accounts.pub");
}

function issue(folder: string, { name, subject, hosts }: Certificate): void {
  openssl(
    folder,
    ...["req", "-x509", ...keyType, "-keyout", `${name}.key`, "-out", `${name}.crt`],
    ...["-days", days, "-subj", subject, "-CA", "ca.crt", "-CAkey", "ca.key"],
    ...["-addext", "basicConstraints=critical,CA:FALSE"],
    ...["-addext", "extendedKeyUsage=clientAuth,serverAuth"],
    ...(hosts === undefined ? [] : ["-addext", `subjectAltName=${hosts}`]),
  );
}

function openssl(folder: string, ...args: readonly string[]): void {
  execFileSync("openssl", args, { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
}

function kubeconfig(folder: string, name: string, server: string = apiServer): object {
  const path = (file: string): string => join(folder, file);
  return {
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name: "cluster",
        cluster: { server, "certificate-authority": path("ca.crt") },
      },
    ],
    users: [
      {
        name,
        user: { "client-certificate": path(`${name}.crt`), "client-key": path(`${name}.key`) },
      },
    ],
    contexts: [{ name: "context", context: { cluster: "cluster", user: name } }],
    "current-context": "context",
  };
}
