"""The staging area: landed rows and their manifests."""
