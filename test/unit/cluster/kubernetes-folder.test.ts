import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import {
  imageNames,
  neededImages,
  openKubernetesFolder,
  savingCommand,
} from "../../cluster/kubernetes-folder.ts";

const printed = `I1125 01:21:01.053428   28190 e2e.go:109] Starting e2e run
gcr.example/k8s-authenticated-test/agnhost:2.6
registry.example/e2e-test-images/agnhost:2.63.0
registry.example/e2e-test-images/agnhost:2.55
registry.example/e2e-test-images/busybox:1.37.0-1
registry.example/e2e-test-images/nginx:1.27-0
registry.example/pause:3.10.2
`;

describe("The list of images", () => {
  it("has only names, without log lines", () => {
    assert.equal(imageNames(printed).length, 6);
    assert.equal(imageNames(printed)[5], "registry.example/pause:3.10.2");
  });

  it("contains the newest pause, agnhost and busybox, but not the image that requires a login", () => {
    assert.deepEqual(neededImages(imageNames(printed)), [
      "registry.example/pause:3.10.2",
      "registry.example/e2e-test-images/agnhost:2.63.0",
      "registry.example/e2e-test-images/busybox:1.37.0-1",
    ]);
  });

  it("gives the command that saves an image", () => {
    assert.equal(
      savingCommand("registry.example/e2e-test-images/agnhost:2.63.0", "/k"),
      "skopeo copy docker://registry.example/e2e-test-images/agnhost:2.63.0 " +
        "docker-archive:/k/images/agnhost-2.63.0.tar:registry.example/e2e-test-images/agnhost:2.63.0",
    );
  });
});

describe("A folder without programs", () => {
  it("is rejected, and the error names the archive that contains each program", () => {
    const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-test-"));
    try {
      assert.throws(
        () => openKubernetesFolder(folder),
        /kubelet: unpack kubernetes-server-linux-amd64\.tar\.gz .*\n.*\n.*\n +e2e\.test: unpack kubernetes-test-linux-amd64/,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
