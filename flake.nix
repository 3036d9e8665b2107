{
  # The same tools on a machine with nix. Node and PostgreSQL also come inside npm packages, pinned by the lock file;
  # the shell's own are there for a plain `node` and for `psql`.
  description = "Holdfast: the durable control plane for sandboxes";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      forEachSystem = build: nixpkgs.lib.genAttrs systems (system: build nixpkgs.legacyPackages.${system});
      tools = pkgs: [ pkgs.nodejs_24 pkgs.postgresql_18 pkgs.bubblewrap pkgs.socat pkgs.openssh pkgs.git pkgs.util-linux ];
    in
    {
      devShells = forEachSystem (pkgs: {
        default = pkgs.mkShell { packages = tools pkgs; };
      });

      # The tests install npm packages, start a database and make user namespaces, none of which nix's own sandbox
      # allows. The check therefore asks to run outside it, and is refused by nix with a sentence unless it is called as
      #   nix flake check --option sandbox relaxed
      checks = forEachSystem (pkgs: {
        tests = pkgs.runCommand "holdfast-tests" { __noChroot = true; nativeBuildInputs = tools pkgs; } ''
          if ! bwrap --unshare-user --ro-bind / / true; then
            echo "this build has no user namespaces: run npm test outside nix, or with --option sandbox relaxed" >&2
            exit 1
          fi
          cp -r ${self} source && chmod -R u+w source && cd source
          export HOME="$PWD/../home" CI=true
          mkdir -p "$HOME"
          npm ci
          npm run check
          npm test
          touch "$out"
        '';
      });

      formatter = forEachSystem (pkgs: pkgs.nixfmt-rfc-style);
    };
}
