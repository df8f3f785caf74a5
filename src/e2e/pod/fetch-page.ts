/** `kube-ipvs-e2e get URL…`: prints the first page that answers with 200. */
import { get } from "node:http";
import { errorText } from "../../base/error-text.ts";

const patienceMs = 10_000;

export async function fetchFirstPage(urls: readonly string[]): Promise<string> {
  const problems: string[] = [];
  for (const url of urls) {
    try {
      return await fetchPage(url);
    } catch (error) {
      problems.push(`${url}: ${errorText(error)}`);
    }
  }
  throw new Error(problems.join("; "));
}

function fetchPage(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = get(url, { timeout: patienceMs }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("end", () => {
        if (response.statusCode === 200) resolve(text);
        else reject(new Error(`status ${response.statusCode}`));
      });
    });
    request.on("timeout", () => request.destroy(new Error("timeout")));
    request.on("error", reject);
  });
}
