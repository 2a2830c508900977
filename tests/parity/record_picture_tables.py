"""Writes tests/tasks/vlm/fixtures: Parquet files with pictures in their columns, as programs for data sets have them: run with
requirements.txt installed.
"""
import io
import os

from peer_packages import use_their_python


def picture(colour):
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (1, 1), colour).save(file, "PNG")
    return file.getvalue()


def main():
    use_their_python()
    import pyarrow
    import pyarrow.parquet

    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tasks", "vlm", "fixtures")
    os.makedirs(folder, exist_ok=True)
    red, green = picture((255, 0, 0)), picture((0, 255, 0))

    def write(name, rows):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), os.path.join(folder, name), compression="zstd")

    def part(kind, text=None):
        return {"type": kind, "text": text}

    answer = {"role": "assistant", "content": [part("text", "both")]}
    write("messages.parquet", [
        {"id": "two", "images": [{"bytes": red, "path": None}, {"bytes": green, "path": "green.png"}],
         "messages": [{"role": "user", "content": [part("image"), part("text", "or"), part("image")]}, answer]},
        {"id": "none", "images": [], "messages": [{"role": "user", "content": [part("text", "hello")]}, answer]},
        {"id": "few", "images": [{"bytes": red, "path": None}],
         "messages": [{"role": "user", "content": [part("image"), part("image")]}, answer]},
    ])
    write("bytes.parquet", [{"image": red, "caption": "red"}, {"image": green, "caption": "green"}])
    write("lists.parquet", [{"image": [red, green], "question": "Same?", "caption": "no"},
                            {"image": [green], "question": None, "caption": "green"}])


if __name__ == "__main__":
    main()
