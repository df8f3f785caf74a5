/** Forms of the output; the first is the default. Apart, since the command line is read without the rest. */
export const doctorFormats = ["table", "json", "yaml"] as const;
export type DoctorFormat = (typeof doctorFormats)[number];
