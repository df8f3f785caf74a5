/** The forms that `kube-ipvs plan` prints. */
export const planFormats = ["text", "json", "yaml"] as const;

export type PlanFormat = (typeof planFormats)[number];
