/** The file that `rotunda init` writes. Invariant: it is valid as it stands, with every example commented out. */

export const starter = `# rotunda.yaml: what every key means stands in docs/configuration.md.
# Values may hold \${VARIABLE} or \${VARIABLE:-default}.

# models:                      # the first one is the default
#   - id: main
#     baseUrl: https://api.openai.com/v1
#     apiKey: \${OPENAI_API_KEY}
#     model: gpt-4o             # its name at the endpoint

# mcpServers:                  # the shape that other programs use
#   files: { command: npx, args: [-y, "@modelcontextprotocol/server-filesystem", "."] }
#   docs: { type: http, url: "https://docs.example.com/mcp" }

# profiles:
#   reviewer:
#     description: Reads changes and says what is wrong with them
#     instructions: ./reviewer.md
#     tools: [read, grep, glob]
#     maxTurns: 15

permissions:
  mode: ask                    # ask, accept-edits, plan or auto: what no rule names
  # allow: [read, "bash(git status *)"]
  # ask: ["files__write_file"]
  deny: ["read(.env)"]
`;
