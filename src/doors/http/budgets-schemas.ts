/** Schemas of budgets. Invariant: a key names one thing; "response" or "tree" alone only the configuration can say. */
import { z } from "zod";
import { budgetKey } from "../../types/budget.ts";

const amount = z.number().min(0);

export const budgetToSet = z.object({
  for: z
    .string()
    .max(300)
    .regex(budgetKey, "it reads all, or token, profile, model, response or tree and a name: profile/general"),
  per: z.enum(["total", "day", "month"]).optional(),
  cost: amount.optional().describe("US dollars"),
  tokens: amount.optional(),
  seconds: amount.optional(),
  agents: amount.optional(),
});

export type BudgetToSet = z.infer<typeof budgetToSet>;
