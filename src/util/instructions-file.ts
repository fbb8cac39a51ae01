/** Instructions of a profile that are the path of a file. Invariant: no text of several lines is taken for one. */
export const instructionsFile = /^\/[^\n]*\.(?:md|txt)$/;
