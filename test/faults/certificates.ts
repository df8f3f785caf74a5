/**
 * Two self-signed certificates for 127.0.0.1, both trusted by the kubeconfig. One is valid, and one expired long ago.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { shell } from "../support/netns/network-namespace.ts";

export interface ServerFiles {
  readonly certificate: string;
  readonly key: string;
}

export interface Certificates {
  readonly good: ServerFiles;
  readonly expired: ServerFiles;
  /** A kubeconfig that trusts both certificates. */
  readonly kubeconfig: string;
}

const settings = `
[ca]
default_ca = own
[own]
database = index
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
x509_extensions = server
unique_subject = no
[any]
commonName = supplied
[server]
subjectAltName = IP:127.0.0.1
basicConstraints = critical,CA:true
[req]
distinguished_name = name
[name]
`;

/** Creates the certificates in this folder. `port` is that of the server. */
export function makeCertificates(folder: string, port: number): Certificates {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "settings"), settings);
  writeFileSync(join(folder, "index"), "");
  writeFileSync(join(folder, "serial"), "01\n");
  const files = {
    good: make(folder, "good", "20200101000000Z", "20991231000000Z"),
    expired: make(folder, "expired", "20200101000000Z", "20200102000000Z"),
  };
  const trusted = [files.good, files.expired].map(({ certificate }) => readFileSync(certificate));
  const authority = join(folder, "authority.crt");
  writeFileSync(authority, Buffer.concat(trusted));
  const kubeconfig = join(folder, "kubeconfig");
  writeFileSync(kubeconfig, kubeconfigText(port, authority));
  return { ...files, kubeconfig };
}

function make(folder: string, name: string, start: string, end: string): ServerFiles {
  shell(`
    cd ${folder}
    openssl ecparam -name prime256v1 -genkey -noout -out ${name}.key
    openssl req -new -config settings -key ${name}.key -subj "/CN=${name}" -out ${name}.csr
    openssl ca -batch -notext -selfsign -config settings -keyfile ${name}.key -in ${name}.csr \
      -startdate ${start} -enddate ${end} -out ${name}.crt 2>&1
  `);
  return { certificate: join(folder, `${name}.crt`), key: join(folder, `${name}.key`) };
}

function kubeconfigText(port: number, authority: string): string {
  return JSON.stringify({
    clusters: [
      {
        name: "c",
        cluster: { server: `https://127.0.0.1:${port}`, "certificate-authority": authority },
      },
    ],
    users: [{ name: "u", user: {} }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  });
}
