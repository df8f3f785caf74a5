/** The result, or `other` if it is rejected with an error that `isExpected` accepts. */
export async function orElse<Result, Other>(
  result: Promise<Result>,
  isExpected: (error: unknown) => boolean,
  other: Other,
): Promise<Result | Other> {
  try {
    return await result;
  } catch (error) {
    if (isExpected(error)) return other;
    throw error;
  }
}
